"""Site configuration: one TOML file, frozen once read, every key known.

Read by the prolog on every job's way, so standard library only. A file looks like this::

    spool_dir = "/var/spool/slurm_io"
    [sampler]
    waits_hz = 5
    [partition.gpu]
    check = "warn"

Each setting carries its unit, meaning and the reason for its default; docs/configuration.md is
made from them (:mod:`slurm_io.config_page`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

from slurm_io.errors import ConfigError, SpecError
from slurm_io.model import SamplerSpec
from slurm_io.spec import JobSpec, spec_from_pairs

DEFAULT_PATH = "/etc/slurm_io/config.toml"
T = TypeVar("T")
_SAMPLER = SamplerSpec.__dataclass_fields__


@dataclass(frozen=True)
class Setting:
    """What one key means. `low` and `high` bound a number, `choices` a word, both inclusive."""

    doc: str
    reason: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    is_path: bool = False


def _key(default: Any, setting: Setting) -> Any:
    return field(default=default, metadata={"setting": setting})


@dataclass(frozen=True)
class SamplerConfig:
    """[sampler]: the resident process, one per node and job."""

    enabled: bool = _key(True, Setting("start a sampler at all", "it is what the product does"))
    interval_s: float = _key(
        _SAMPLER["interval_s"].default,
        Setting("time between two counter samples", "as iostat 1", "s", 0.1, 60),
    )
    waits_hz: float = _key(
        _SAMPLER["waits_hz"].default,
        Setting("looks at what ranks and workers wait for", "±3 % after a minute", "1/s", 0.5, 50),
    )
    capacity_period_s: float = _key(
        _SAMPLER["capacity_period_s"].default,
        Setting("time between two statvfs of the job's mounts", "space moves slowly", "s", 5, 3600),
    )
    budget_share: float = _key(
        _SAMPLER["budget_share"].default,
        Setting("share of one core the sampler may use", "no job feels 0.3 %", "share", 0.0005, 1),
    )
    spool_max_bytes: int = _key(
        _SAMPLER["spool_max_bytes"].default,
        Setting("largest spool of one job on one node", "a week at 8 ranks", "B", 1 << 20, 1 << 40),
    )
    idle_exit_s: float = _key(
        _SAMPLER["idle_exit_s"].default,
        Setting("end when no process of the job was seen for so long", "lost epilogs", "s", 5),
    )
    max_lifetime_s: float = _key(
        _SAMPLER["max_lifetime_s"].default,
        Setting("end after this time in any case", "longer than any job", "s", 60),
    )
    collectors_off: tuple[str, ...] = _key(
        (), Setting("collectors never to start", "all are cheap enough to run")
    )


@dataclass(frozen=True)
class HookConfig:
    """[hook]: the library that attaches itself to the job's Python processes."""

    enabled: bool = _key(
        True, Setting("put the hook on PYTHONPATH", "some µs a step; users can say SLURM_IO_HOOK=0")
    )


@dataclass(frozen=True)
class PrologConfig:
    """[prolog]: what slurmd runs as root before a job."""

    deadline_s: float = _key(
        3.0,
        Setting(
            "after this time the prolog gives up and lets the job start",
            "users are told 'Prolog hung' after 8 s (MessageTimeout 10)",
            "s",
            0.5,
            30,
        ),
    )
    systemd: str = _key(
        "auto",
        Setting(
            "start the sampler as a systemd unit (auto: where systemd runs) or with setsid (never)",
            "a unit of its own survives slurmd and is not charged to it",
            choices=("auto", "never"),
        ),
    )


@dataclass(frozen=True)
class EpilogConfig:
    """[epilog]: what happens after a job, detached from slurmd."""

    grace_s: float = _key(
        120.0,
        Setting("how long the first node waits for the others", "staggered seals", "s", 0, 3600),
    )
    time_limit_s: float = _key(
        1800.0,
        Setting("sealing, delivery and analysis end after this", "hung file systems", "s", 10),
    )
    sampler_stop_s: float = _key(
        10.0, Setting("a stopped sampler is killed after this", "its contract is 1 s", "s", 1, 300)
    )
    retention_s: float = _key(
        14 * 86400.0,
        Setting("undelivered data is kept in the spool so long", "holidays", "s", 3600),
    )


@dataclass(frozen=True)
class StoreConfig:
    """[store]: the site's own copy, beside the user's; off unless both are set."""

    site_path: str = _key(
        "", Setting("folder of the site's store; empty = none", "needs an owner", is_path=True)
    )
    service_user: str = _key(
        "", Setting("account that writes the site's store", "root is squashed on most mounts")
    )


@dataclass(frozen=True)
class PolicyConfig:
    """[policy]: what follows from what a job asked for. A user's mistake never drains a node."""

    bad_request: str = _key(
        "warn",
        Setting(
            "a malformed slurm-io: request is only logged (record), told in the job's output "
            "(warn), or fails the job with a message (stop)",
            "the job is worth more than its profile",
            choices=("record", "warn", "stop"),
        ),
    )
    allow_dataset_paths: bool = _key(
        False, Setting("accept dataset=/path besides names", "root should not probe any path")
    )


@dataclass(frozen=True)
class ChecksConfig:
    """[checks]: what is proved before a job starts. Each check has its own [check.NAME] as well."""

    enabled: bool = _key(
        True, Setting("run checks in the prolog", "data is what nobody else checks")
    )
    deadline_s: float = _key(
        2.0,
        Setting(
            "checks that have not answered by then read UNKNOWN",
            "must stay below prolog.deadline_s",
            "s",
            0.1,
            30,
        ),
    )
    jitter_s: float = _key(
        0.5,
        Setting(
            "checks of shared data wait up to so long first", "jobs start in bursts", "s", 0, 5
        ),
    )
    blast_nodes: int = _key(
        2, Setting("one check may drain so many nodes", "more is a shared fault", "count", 0, 1000)
    )
    blast_share: float = _key(
        0.05, Setting("and at most this share of all nodes", "a bad rule", "share", 0, 1)
    )
    blast_window_s: float = _key(
        600.0, Setting("counted over this time", "jobs start at different times", "s", 10, 86400)
    )
    settle_s: float = _key(
        2.0,
        Setting(
            "a node about to drain waits so long for others", "faults come at once", "s", 0, 30
        ),
    )
    drain_exit: bool = _key(
        False,
        Setting(
            "a drained node's prolog exits 1 (Slurm requeues the job, held) instead of failing the "
            "job's tasks with a message",
            "held jobs need a person",
        ),
    )


@dataclass(frozen=True)
class CheckConfig:
    """[check.NAME]: one check's policy; further keys are the check's own (docs/checks.md)."""

    policy: str = _key(
        "",
        Setting(
            "what a FAIL does: record, warn (message in the job's output), stop (and its tasks "
            "fail), drain (the node; node faults only); empty = the check's default",
            "sites differ",
            choices=("", "record", "warn", "stop", "drain"),
        ),
    )
    enabled: bool = _key(True, Setting("run this check", "it costs little"))
    deadline_s: float = _key(
        0.0, Setting("its own deadline; 0 = checks.deadline_s", "slow file systems", "s", 0, 30)
    )


@dataclass(frozen=True)
class CheckSettings:
    """One check's table: what all checks share, and the rest as written in the file."""

    common: CheckConfig = field(default_factory=CheckConfig)
    own: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DatasetConfig:
    """[dataset.NAME]: one dataset of the admin's registry.

    Paths may hold %N (short host name), %n (Slurm's node name), %u (the job's user), %j (job id)
    and %% as in slurm.conf.
    """

    local: str = _key(
        "",
        Setting(
            "its folder on the node's own disks; empty = not kept there",
            "the admin says where",
            is_path=True,
        ),
    )
    shared: str = _key(
        "",
        Setting(
            "its folder on a shared file system; empty = none", "the admin says where", is_path=True
        ),
    )
    manifest: str = _key(
        "",
        Setting("its manifest (slurm-io dataset manifest build)", "the only truth", is_path=True),
    )
    content_id: str = _key(
        "",
        Setting("version that jobs get unless they name one; empty = the manifest's", "one truth"),
    )
    tier: str = _key(
        "any",
        Setting(
            "where jobs must find it",
            "any: local if a folder is set",
            choices=("any", "local", "shared"),
        ),
    )
    level: int = _key(2, Setting("how deep the prolog verifies (0 to 3)", "about 1 s", "", 0, 3))
    layout: str = _key(
        "auto",
        Setting(
            "judge Lustre layouts (auto) or not (off)",
            "where it is Lustre",
            choices=("auto", "off"),
        ),
    )
    readers: int = _key(
        0,
        Setting(
            "nodes that read it at once; 0 = the job's own", "layout advice", "count", 0, 100000
        ),
    )


@dataclass(frozen=True)
class Thresholds:
    """[thresholds]: where a share of training time becomes a finding."""

    data_share: float = _key(
        0.03, Setting("waiting for data", "MLPerf-like target: 97 % busy", "share", 0, 1)
    )
    checkpoint_share: float = _key(
        0.01, Setting("blocking checkpoints", "asynchronous saving gets there", "share", 0, 1)
    )
    storage_share: float = _key(
        0.05, Setting("data and checkpoints together", "sum of both with slack", "share", 0, 1)
    )
    step_spread_ratio: float = _key(
        3.0, Setting("P99 / P50 of the step time", "a healthy loop is below 1.5", "", 1)
    )
    step_spread_s: float = _key(
        1.0, Setting("and P99 − P50 at least this", "short steps jitter by nature", "s", 0)
    )
    step_spread_share: float = _key(
        0.1, Setting("and P99 − P50 at least this share of P50", "long steps", "share", 0, 10)
    )


@dataclass(frozen=True)
class Config:
    """The whole file. `partitions` holds each partition's defaults of a job's request."""

    runtime_dir: str = _key(
        "/run/slurm_io",
        Setting("where prolog and task prolog meet", "tmpfs, root-owned, readable", is_path=True),
    )
    spool_dir: str = _key(
        "/var/spool/slurm_io",
        Setting("local disk that samples are written to", "survives a reboot", is_path=True),
    )
    state_dir: str = _key(
        "/var/lib/slurm_io",
        Setting("what a node knows of its datasets", "survives a reboot, root-owned", is_path=True),
    )
    log_file: str = _key(
        "/var/log/slurm_io.log",
        Setting("log of prolog and epilog on each node", "slurmd shows none of it", is_path=True),
    )
    log_max_bytes: int = _key(
        4 << 20, Setting("a log of this size is turned over once", "bounded", "B", 4096, 1 << 30)
    )
    sampler: SamplerConfig = field(default_factory=SamplerConfig)
    hook: HookConfig = field(default_factory=HookConfig)
    prolog: PrologConfig = field(default_factory=PrologConfig)
    epilog: EpilogConfig = field(default_factory=EpilogConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    thresholds: Thresholds = field(default_factory=Thresholds)
    checks: ChecksConfig = field(default_factory=ChecksConfig)
    check: Mapping[str, CheckSettings] = field(default_factory=dict)
    datasets: Mapping[str, DatasetConfig] = field(default_factory=dict)
    partitions: Mapping[str, JobSpec] = field(default_factory=dict)


SECTIONS: dict[str, type[Any]] = {
    "sampler": SamplerConfig,
    "hook": HookConfig,
    "prolog": PrologConfig,
    "epilog": EpilogConfig,
    "store": StoreConfig,
    "policy": PolicyConfig,
    "thresholds": Thresholds,
    "checks": ChecksConfig,
}
NAMED_SECTIONS = ("check", "dataset", "partition")


def load(path: str | None = None) -> Config:
    """Read a configuration file; without a path the default one, which may be absent.

    Raises ConfigError naming the file, the key and the fix.
    """
    import tomllib  # 13 ms, and most nodes have no file

    name = path or DEFAULT_PATH
    try:
        with open(name, "rb") as file:
            data = tomllib.load(file)
    except FileNotFoundError:
        if path is None:
            return Config()
        raise ConfigError(f"{name}: no such file; give the path of a TOML file") from None
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}: not valid TOML: {error}") from error
    return parse(data, name)


def parse(data: Mapping[str, Any], name: str = "configuration") -> Config:
    """Check parsed TOML against the known keys. `name` heads the errors."""
    top = {key: value for key, value in data.items() if key not in (*SECTIONS, *NAMED_SECTIONS)}
    known = [*settings_of(Config), *SECTIONS, *NAMED_SECTIONS]
    values = _checked(Config, top, name, "", known)
    for section, kind in SECTIONS.items():
        table = _table(data.get(section, {}), name, section)
        values[section] = read_section(kind, table, name, section)
    config = Config(
        **values,
        partitions=_partitions(data.get("partition", {}), name),
        check=_checks(data.get("check", {}), name),
        datasets=_datasets(data.get("dataset", {}), name),
    )
    if bool(config.store.site_path) != bool(config.store.service_user):
        raise ConfigError(f"{name}: [store] needs site_path and service_user, or neither")
    return config


def read_section(kind: type[T], table: Mapping[str, Any], name: str, section: str) -> T:
    """One section's dataclass from its table; `name` is the file. Raises ConfigError."""
    return kind(**_checked(kind, table, name, section, [*settings_of(kind)]))


def settings_of(kind: type[Any]) -> dict[str, Setting]:
    """Key -> what it means, of one section's dataclass, in order."""
    return {
        each.name: each.metadata["setting"] for each in fields(kind) if "setting" in each.metadata
    }


def default_of(kind: type[Any], key: str) -> Any:
    """The default of one key."""
    value = kind.__dataclass_fields__[key].default
    return None if value is MISSING else value


def _table(value: Any, name: str, section: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{name}: {section} is a section: write [{section}]")
    return value


def _checked(
    kind: type[Any], table: Mapping[str, Any], name: str, section: str, known: list[str]
) -> dict[str, Any]:
    settings = settings_of(kind)
    values = {}
    for key, value in table.items():
        label = f"{section}.{key}" if section else key
        if key not in settings:
            raise ConfigError(f"{name}: unknown key {label!r}{_nearest(key, known)}")
        try:
            values[key] = _value(value, default_of(kind, key), settings[key])
        except ValueError as error:
            raise ConfigError(f"{name}: {label} {error}, not {value!r}") from None
    return values


def _value(value: Any, default: Any, setting: Setting) -> Any:
    """The value in the default's type; ValueError says what it must be."""
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise ValueError("must be true or false")  # noqa: TRY004
        return value
    if isinstance(default, int | float):
        return _number(value, default, setting)
    if isinstance(default, tuple):
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ValueError("must be a list of strings")
        return tuple(value)
    return _text(value, default, setting)


def _number(value: Any, default: float, setting: Setting) -> float:
    whole = isinstance(default, int)
    accepted = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, accepted):
        kind = "whole number" if whole else "number"
        raise ValueError(f"must be a {kind} ({setting.unit or 'count'})")  # noqa: TRY004
    low, high = setting.low, setting.high
    if not (low is None or value >= low) or not (high is None or value <= high):  # NaN is out
        bounds = f"at least {low:.12g}" if high is None else f"between {low:.12g} and {high:.12g}"
        raise ValueError(f"must be {bounds} {setting.unit}".rstrip())
    return type(default)(value)


def _text(value: Any, default: str, setting: Setting) -> str:
    if not isinstance(value, str) or (value and not value.isprintable()):
        raise ValueError("must be printable text in quotes")
    if setting.choices and value not in setting.choices:
        raise ValueError(f"must be one of {', '.join(setting.choices)}")
    needs_path = setting.is_path and (value or default)
    if needs_path and (not value.startswith("/") or ".." in value.split("/") or value == "/"):
        raise ValueError("must be an absolute path without '..'")
    return value


def _checks(value: Any, name: str) -> dict[str, CheckSettings]:
    checks = {}
    for check, inner in _table(value, name, "check").items():
        table = _table(inner, name, f"check.{check}")
        common = {key: item for key, item in table.items() if key in settings_of(CheckConfig)}
        checks[check] = CheckSettings(
            read_section(CheckConfig, common, name, f"check.{check}"),
            {key: item for key, item in table.items() if key not in common},
        )
    return checks


def _datasets(value: Any, name: str) -> dict[str, DatasetConfig]:
    datasets = {}
    for dataset, inner in _table(value, name, "dataset").items():
        label = f"dataset.{dataset}"
        read = read_section(DatasetConfig, _table(inner, name, label), name, label)
        if not (read.local or read.shared):
            raise ConfigError(f"{name}: [{label}] needs local or shared: the folder it lies in")
        datasets[dataset] = read
    return datasets


def _partitions(value: Any, name: str) -> dict[str, JobSpec]:
    partitions = {}
    for partition, table in _table(value, name, "partition").items():
        pairs = _table(table, name, f"partition.{partition}")
        try:
            partitions[partition] = spec_from_pairs(
                {key: _as_written(item) for key, item in pairs.items()}, allow_paths=True
            )
        except SpecError as error:
            raise ConfigError(f"{name}: [partition.{partition}] {error}") from None
    return partitions


def _as_written(value: Any) -> str:
    """A TOML value as a job would write it: lists with commas."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _nearest(key: str, known: list[str]) -> str:
    from difflib import get_close_matches  # only when something is wrong: the prolog stays light

    near = get_close_matches(key, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(sorted(known))}"
