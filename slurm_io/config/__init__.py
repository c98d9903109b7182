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
from typing import Any

from slurm_io.config.checks import CheckConfig, ChecksConfig, CheckSettings, DatasetConfig
from slurm_io.config.sections import (
    EpilogConfig,
    HookConfig,
    PolicyConfig,
    PrologConfig,
    RulesConfig,
    SamplerConfig,
    StoreConfig,
    Thresholds,
)
from slurm_io.config.settings import (
    Setting,
    _key,
    checked_values,
    default_of,
    read_section,
    settings_of,
)
from slurm_io.config.spares import ReservationConfig, SparesConfig, StageConfig
from slurm_io.errors import ConfigError, SpecError
from slurm_io.records import dataclass, field
from slurm_io.spec import JobSpec, spec_from_pairs

__all__ = [
    "DEFAULT_PATH",
    "DRAIN_DECISION_S",
    "MAX_BYTES",
    "NAMED_SECTIONS",
    "SECTIONS",
    "WRITING_DOWN_S",
    "CheckConfig",
    "CheckSettings",
    "ChecksConfig",
    "Config",
    "DatasetConfig",
    "EpilogConfig",
    "HookConfig",
    "PolicyConfig",
    "PrologConfig",
    "ReservationConfig",
    "RulesConfig",
    "SamplerConfig",
    "Setting",
    "SparesConfig",
    "StageConfig",
    "StoreConfig",
    "Thresholds",
    "_key",
    "default_of",
    "load",
    "parse",
    "read_section",
    "settings_of",
]

DEFAULT_PATH = "/etc/slurm_io/config.toml"
MAX_BYTES = 8 << 20  # of a configuration file: thousands of datasets fit
WRITING_DOWN_S = 0.3  # of a prolog's time: what it keeps to publish what its checks found
DRAIN_DECISION_S = 1.0  # a drain inside the prolog: its scontrol calls, beside checks.settle_s


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
        Setting(
            "what a node knows of its datasets; may hold %N, %n, %h where nodes share a folder",
            "survives a reboot, root-owned",
            is_path=True,
        ),
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
    rules: RulesConfig = field(default_factory=RulesConfig)
    checks: ChecksConfig = field(default_factory=ChecksConfig)
    stage: StageConfig = field(default_factory=StageConfig)
    spares: SparesConfig = field(default_factory=SparesConfig)
    check: Mapping[str, CheckSettings] = field(default_factory=dict)
    datasets: Mapping[str, DatasetConfig] = field(default_factory=dict)
    partitions: Mapping[str, JobSpec] = field(default_factory=dict)
    reservations: Mapping[str, ReservationConfig] = field(default_factory=dict)


SECTIONS: dict[str, type[Any]] = {
    "sampler": SamplerConfig,
    "hook": HookConfig,
    "prolog": PrologConfig,
    "epilog": EpilogConfig,
    "store": StoreConfig,
    "policy": PolicyConfig,
    "thresholds": Thresholds,
    "rules": RulesConfig,
    "checks": ChecksConfig,
    "stage": StageConfig,
    "spares": SparesConfig,
}
NAMED_SECTIONS = ("check", "dataset", "partition", "reservation")


def load(path: str | None = None) -> Config:
    """Read a configuration file, the default one without a path.

    The default one may be absent, whoever names it: the entry scripts of a site without a file do.
    Raises ConfigError naming the file, the key and the fix.
    """
    name = path or DEFAULT_PATH
    try:
        text = _text_of(name)
    except FileNotFoundError:
        if name == DEFAULT_PATH:
            return Config()
        raise ConfigError(f"{name}: no such file; give the path of a TOML file") from None
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not valid TOML: {error}") from error
    import tomllib  # 13 ms, and most nodes have no file

    try:
        return parse(tomllib.loads(text), name)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: not valid TOML: {error}") from error
    except (ValueError, RecursionError) as error:
        told = "a number has too many digits, or it is nested too deep"
        raise ConfigError(f"{name}: not valid TOML: {told}") from error


def _text_of(name: str) -> str:
    """The file's text, at most `MAX_BYTES`. Raises ConfigError, OSError, UnicodeDecodeError."""
    with open(name, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{name}: larger than {MAX_BYTES >> 20} MiB: is it a configuration file?")
    return content.decode()


def parse(data: Mapping[str, Any], name: str = "configuration") -> Config:
    """Check parsed TOML against the known keys. `name` heads the errors."""
    top = {key: value for key, value in data.items() if key not in (*SECTIONS, *NAMED_SECTIONS)}
    known = [*settings_of(Config), *SECTIONS, *NAMED_SECTIONS]
    values = checked_values(Config, top, name, "", known)
    for section, kind in SECTIONS.items():
        table = _table(data.get(section, {}), name, section)
        values[section] = read_section(kind, table, name, section)
    config = Config(
        **values,
        partitions=_partitions(data.get("partition", {}), name),
        check=_checks(data.get("check", {}), name),
        datasets=_datasets(data.get("dataset", {}), name),
        reservations=_reservations(data.get("reservation", {}), name),
    )
    if any(each[:1] not in "Nnh" or not each for each in _after_percent(config.state_dir)):
        raise ConfigError(
            f"{name}: state_dir may hold %N, %n, %h and %%, nothing else of that kind"
        )
    if bool(config.store.site_path) != bool(config.store.service_user):
        raise ConfigError(f"{name}: [store] needs site_path and service_user, or neither")
    _check_room_for_drain_exit(config, name)
    return config


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
        _check_dataset_name(dataset, name)
        read = read_section(DatasetConfig, _table(inner, name, label), name, label)
        if not (read.local or read.shared):
            raise ConfigError(f"{name}: [{label}] needs local or shared: the folder it lies in")
        datasets[dataset] = read
    return datasets


def _check_dataset_name(dataset: str, name: str) -> None:
    """A name that no job could write would be a dataset nobody gets."""
    try:
        spec_from_pairs({"dataset": dataset})
        fits = "@" not in dataset
    except SpecError:
        fits = False
    if not fits:
        raise ConfigError(
            f"{name}: [dataset.{dataset!a:.80}]: no job can ask for this name; use letters, digits "
            "and . _ + -, at most 128, and no path"
        )


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


def _reservations(value: Any, name: str) -> dict[str, ReservationConfig]:
    reservations = {}
    for reservation, inner in _table(value, name, "reservation").items():
        label = f"reservation.{reservation}"
        read = read_section(ReservationConfig, _table(inner, name, label), name, label)
        if read.filler_script and not read.filler_user:
            raise ConfigError(f"{name}: [{label}] filler_script needs filler_user: never root")
        reservations[reservation] = read
    return reservations


def _after_percent(pattern: str) -> list[str]:
    return pattern.replace("%%", "").split("%")[1:]


def _as_written(value: Any) -> str:
    """A TOML value as a job would write it: lists with commas."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _table(value: Any, name: str, section: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{name}: {section} is a section: write [{section}]")
    return value


def _check_room_for_drain_exit(config: Config, name: str) -> None:
    """Without this room every drain would be decided after the prolog, as if the key were unset."""
    if not (config.checks.enabled and config.checks.drain_exit):
        return
    own = {
        f"check.{check}.deadline_s": settings.common.deadline_s
        for check, settings in config.check.items()
        if settings.common.enabled
    }
    deadlines = {"checks.deadline_s": config.checks.deadline_s, **own}
    key = max(deadlines, key=lambda each: deadlines[each])
    spare_s = WRITING_DOWN_S + DRAIN_DECISION_S
    needed_s = round(deadlines[key] + config.checks.settle_s + spare_s, 3)
    if config.prolog.deadline_s < needed_s:
        raise ConfigError(
            f"{name}: checks.drain_exit needs prolog.deadline_s to be at least {key} + "
            f"checks.settle_s + {spare_s:g} = {needed_s:g} s, not {config.prolog.deadline_s:g}: "
            "raise it or lower the other two"
        )
