"""What the job still has to write fits where it is to be written.

*What it checks*: bytes and inodes that are free (statvfs) against what will be needed: the next
checkpoint under the job's ``ckpt`` (as large as the newest complete one there, or as the site says)
and, for a dataset on the node's own disks, what of it is not there yet. Needs that fall on one file
system are added up. Mounts the site names must have the room it names. Shared places are looked at
once per job.

*Why it matters*: a job that cannot save its checkpoint loses the hours since the last one, and
finds out only then. A fixed "80 % full" says nothing: 3 % of 400 TB is room for a week, or for
nobody.

*Needs*: the job's user may list the checkpoint folder. The manifest says how large a dataset is.

*Answers*: FAIL when it does not fit (kind "job"; "node" only for the node's own named mounts);
DEGRADED when the next checkpoint fits but not all of ``keep_n``; UNKNOWN when nothing says how much
will be needed, or the file system does not answer; OK when it fits.

*What to do*: delete old checkpoints, or write elsewhere. On NFS the size shown may be your quota on
the server. Quotas of other file systems are not seen here: ask them (``lfs quota``, ``quota``).

*Known false alarms*: the first checkpoint of a smaller model in the folder of a larger one. Files
in a dataset's folder that do not belong to it count as staged.

*Settings*: ``expect_checkpoint_bytes``, ``keep_n``, ``growth``, ``min_free_bytes``,
``min_free_files``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slurm_io.config import Setting, _key, read_section
from slurm_io.model import CheckResult, FaultKind
from slurm_io.prolog.checks.base import CHECKS, CheckContext, check
from slurm_io.records import dataclass

if TYPE_CHECKING:
    from slurm_io.filesystems.mounts import MountTable
    from slurm_io.prolog.space_forecast import Need, Space

_ANSWER_SHARE = 0.9
_SEARCH_SHARE = 0.7


@dataclass(frozen=True)
class Settings:
    """[check.space]"""

    expect_checkpoint_bytes: int = _key(
        0,
        Setting("size of one checkpoint; 0 = as the newest one", "jobs differ", "B", 0),
    )
    keep_n: int = _key(
        1,
        Setting("checkpoints kept at once; more makes DEGRADED", "sites differ", "count", 1, 1000),
    )
    growth: float = _key(
        1.0, Setting("next checkpoint to the newest one", "one model, one size", "ratio", 0.1, 10)
    )
    min_free_bytes: tuple[str, ...] = _key(
        (), Setting('room on mounts of the node: ["/tmp=50GB"]', "what jobs and services need")
    )
    min_free_files: tuple[str, ...] = _key(
        (), Setting('inodes on mounts of the node: ["/tmp=100000"]', "what jobs need", "count")
    )


@dataclass(frozen=True)
class _Question:
    """One path to measure in a child; `kind` says what is made of the answer."""

    kind: str
    path: str
    measure: Callable[..., dict[str, Any]]
    arguments: tuple[Any, ...] = ()


def _has_something_to_measure(context: CheckContext) -> bool:
    job = context.spec
    asked = job.check != "off" and (job.ckpt is not None or job.dataset is not None)
    return asked or bool(context.own)


@CHECKS.register("space")
@check(
    kind="node",
    scope="node",
    identity="user",
    policy="warn",
    applies=_has_something_to_measure,
    needs=(
        "slurm_io.filesystems.mounts",
        "slurm_io.prolog.space_measures",
    ),
    needs_for_dataset=(
        "slurm_io.filesystems.residency.local",
        "slurm_io.staging.datasets",
        "slurm_io.prolog.space_forecast",
        "slurm_io.staging.manifest.files",
    ),
)
def space(context: CheckContext) -> list[CheckResult]:
    """One result for each file system with needs and each mount the site named."""
    from slurm_io.prolog.space_measures import measure

    settings = read_section(Settings, context.own, "<config file>", "check.space")
    minima = _minima(settings)
    mounts = _mounts(context)
    questions = [_Question("mount", path, measure) for path in minima]
    if context.spec.check != "off":
        questions += _questions_of_job(context, mounts, settings)
    results: list[CheckResult] = []
    needs: dict[int, tuple[Space, list[Need]]] = {}
    for question, answer, reason in _asked(questions, context.budget_s):
        if answer is None:
            results.append(_no_answer(question, reason, mounts))
            continue
        found = _space(question.path, answer, mounts)
        if question.kind == "mount":
            results.append(_minimum(found, minima[question.path]))
        elif context.leader or not _is_shared(found.kind):
            need = _need(question, answer, settings)
            if need is not None:
                needs.setdefault(answer["device"], (found, []))[1].append(need)
    return [*results, *_forecasts(needs)]


def _questions_of_job(
    context: CheckContext, mounts: MountTable, settings: Settings
) -> list[_Question]:
    from slurm_io.prolog.space_measures import measure, measure_checkpoints

    questions = []
    search_s = context.budget_s * _SEARCH_SHARE / 2
    ckpt = context.spec.ckpt
    # Another node asks a shared server: not even a path of it is touched here.
    if ckpt is not None and (context.leader or not _is_shared(_kind_at(ckpt, mounts))):
        known = settings.expect_checkpoint_bytes and settings.keep_n == 1
        search = _Question("checkpoint", ckpt, measure_checkpoints, (search_s,))
        questions.append(_Question("checkpoint", ckpt, measure) if known else search)
    return questions + _questions_of_dataset(context, mounts, search_s)


def _questions_of_dataset(
    context: CheckContext, mounts: MountTable, search_s: float
) -> list[_Question]:
    from slurm_io.errors import SpecError
    from slurm_io.filesystems.residency.local import is_without_compression
    from slurm_io.prolog.space_measures import measure_dataset
    from slurm_io.staging.datasets import Names, place_of

    names = Names(context.node, context.user, context.job)
    try:
        place = place_of(context.config, context.spec, names)
    except SpecError:
        return []  # the check of the dataset says so
    if place is None or place.tier != "local" or place.manifest is None:
        return []
    mount = mounts.of_path(place.path)
    count_blocks = mount is not None and is_without_compression(mount.fstype)
    arguments = (place.manifest, search_s, count_blocks)
    return [_Question("dataset", place.path, measure_dataset, arguments)]


def _asked(
    questions: list[_Question], budget_s: float
) -> list[tuple[_Question, dict[str, Any] | None, str]]:
    """In children, so that a mount that hangs does not hide what others say."""
    from slurm_io.host.turns import take_turns

    turns = [((each.measure, (each.path, *each.arguments)),) for each in questions]
    answers = []
    for question, found in zip(questions, take_turns(turns, budget_s * _ANSWER_SHARE), strict=True):
        answer = found[0] if found else None
        value = answer.value if answer is not None and answer.state == "ok" else None
        answers.append((question, value, answer.reason if answer is not None else "not asked"))
    return answers


def _need(question: _Question, answer: dict[str, Any], settings: Settings) -> Need | None:
    if question.kind == "checkpoint":
        return _checkpoint_need(answer, settings)
    return _dataset_need(answer)


def _checkpoint_need(answer: dict[str, Any], settings: Settings) -> Need:
    from slurm_io.prolog.space_forecast import Need

    newest = answer.get("newest")
    if settings.expect_checkpoint_bytes:
        size_bytes, basis = settings.expect_checkpoint_bytes, "as the site expects"
    elif newest is not None:
        size_bytes, basis = int(newest[2] * settings.growth), f"as {newest[0]!a}"
    else:
        why = answer["cut"] or "no complete checkpoint is there yet"
        return Need("the next checkpoint", None, None, f"{why} (expect_checkpoint_bytes tells)")
    more = max(0, settings.keep_n - answer.get("present", 0) - 1)
    files = newest[3] if newest is not None else 1
    return Need("the next checkpoint", size_bytes, files, basis, more * size_bytes)


def _dataset_need(answer: dict[str, Any]) -> Need | None:
    from slurm_io.prolog.space_forecast import Need

    what = "the rest of the dataset"
    if answer["total_bytes"] is None or answer["cut"]:
        return Need(what, None, None, answer["reason"])
    rest_bytes = max(0, answer["total_bytes"] - answer["there_bytes"])
    rest_files = max(0, answer["total_files"] - answer["there_files"])
    if not rest_bytes and not rest_files:
        return None
    return Need(what, rest_bytes, rest_files, "its manifest")


def _forecasts(needs: dict[int, tuple[Space, list[Need]]]) -> list[CheckResult]:
    if not needs:
        return []
    from slurm_io.prolog.space_forecast import judge_needs

    return [judge_needs(found, of_one) for found, of_one in needs.values()]


def _minimum(found: Space, least: tuple[int, int]) -> CheckResult:
    from slurm_io.prolog.space_forecast import judge_minimum

    return judge_minimum(found, *least)


def _minima(settings: Settings) -> dict[str, tuple[int, int]]:
    """Path -> (bytes, inodes) the site wants free there."""
    wanted = {path: (size, 0) for path, size in _pairs(settings.min_free_bytes, "min_free_bytes")}
    for path, count in _pairs(settings.min_free_files, "min_free_files"):
        wanted[path] = (wanted.get(path, (0, 0))[0], count)
    return wanted


def _pairs(texts: tuple[str, ...], key: str) -> list[tuple[str, int]]:
    pairs = []
    for text in texts:
        from slurm_io.errors import ConfigError
        from slurm_io.filesystems.sizes import parse_size

        path, _, number = text.rpartition("=")
        size = parse_size(number)
        if not path.startswith("/") or size is None:
            raise ConfigError(f'[check.space] {key}: write "/path=50GB", not {text!a}')
        pairs.append((path, size.size_bytes))
    return pairs


def _mounts(context: CheckContext) -> MountTable:
    from slurm_io.filesystems.mounts import read_mounts

    return read_mounts(context.proc_root)


def _space(path: str, answer: dict[str, Any], mounts: MountTable) -> Space:
    from slurm_io.filesystems.capacity import capacity_of
    from slurm_io.prolog.space_forecast import Space

    mount = mounts.of_path(answer["real"])
    capacity = capacity_of(answer["statvfs"])
    if mount is None:
        return Space(path, "other", "unknown type", capacity)
    return Space(path, mount.kind, mount.fstype, capacity)


def _kind_at(path: str, mounts: MountTable) -> str:
    """By the path as written: nothing is touched."""
    mount = mounts.of_path(path)
    return mount.kind if mount is not None else "other"


def _is_shared(kind: str) -> bool:
    from slurm_io.filesystems.kinds import NETWORK_KINDS

    return kind in NETWORK_KINDS


def _no_answer(question: _Question, reason: str, mounts: MountTable) -> CheckResult:
    shared = _is_shared(_kind_at(question.path, mounts))
    of_mount: FaultKind = "shared" if shared else "node"
    kind: FaultKind = of_mount if question.kind == "mount" else "job"
    text = f"how much is free on {question.path} cannot be told: {reason}"
    return CheckResult("space", "UNKNOWN", kind, text, question.path)
