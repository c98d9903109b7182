"""The job's dataset lies on the fast tier, not only in an archive or object store.

*What it checks*: asks of each file of the dataset the job named whether its bytes are here, without
reading or recalling any: Lustre HSM (FSx for Lustre, Azure Managed Lustre) by the layout's released
bit, Weka by ``weka fs tier location``, GPFS by ``mmlsattr -L``. Elsewhere the blocks a file has may
make it suspect, and nothing more. Node-local datasets are looked at on each node, shared ones once
per job.

*Why it matters*: tiering keeps name, size and times of a file that was moved away. The first read
of it blocks inside the kernel until it is restored: minutes in which all GPUs of the job wait.

*Needs*: the job's user may look up the files. ``lfs``, ``weka`` (logged in) or ``mmlsattr`` where
the client itself cannot tell.

*Answers*: FAIL when files are released, with how many bytes and the commands that bring them back;
DEGRADED when some are partly away, or look it (suspect); UNKNOWN when it cannot be told of all
files; OK only when a source that knows says so of every file, and on the node's own disks.

*What to do*: run the commands of the result, which are never run for you: bringing back much at
once can overload a metadata server. Then submit again, or start the job and accept the wait.

*Known false alarms*: a sparse file above 64 MiB is suspect; so is a single large file that an NFS
server compresses by more than half. DMF and GPFS AFM caches cannot be told.

*Settings*: ``files_max``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slurm_io.config import Setting, _key, read_section
from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import CHECKS, CheckContext, check
from slurm_io.records import dataclass

if TYPE_CHECKING:
    from slurm_io.filesystems.residency.answer import FileState, ResidencyAnswer
    from slurm_io.filesystems.residency.base import Surroundings
    from slurm_io.filesystems.residency.pinned import Root

_LISTED_MAX = 20
_LOOKED_FOR_HOLES = 64
_WALK_SHARE = 0.4
_ASK_SHARE = 0.9
_SPREAD = 64
_PLAIN_KINDS = ("local", "tmpfs")
_SKIPPED_FOLDERS = frozenset((".git", ".zfs", ".snapshot", ".snapshots", ".ckpt"))


@dataclass(frozen=True)
class Settings:
    """[check.residency]"""

    files_max: int = _key(
        200_000,
        Setting("files of one dataset to ask for", "more take longer than a prolog", "count", 1),
    )


def _names_dataset(context: CheckContext) -> bool:
    return context.spec.dataset is not None


@CHECKS.register("residency")
@check(
    kind="job",
    scope="node",
    identity="user",
    policy="warn",
    applies=_names_dataset,
    needs_for_dataset=(
        "slurm_io.staging.datasets",
        "slurm_io.filesystems.bounded_walk",
        "slurm_io.filesystems.residency.judge",
        "slurm_io.filesystems.residency.generic",
        "slurm_io.filesystems.residency.gpfs",
        "slurm_io.filesystems.residency.local",
        "slurm_io.filesystems.residency.lustre_hsm",
        "slurm_io.filesystems.residency.weka",
    ),
)
def residency(context: CheckContext) -> list[CheckResult]:
    """One result for the dataset; [] when there is none or another node looks at it."""
    from slurm_io.errors import SpecError
    from slurm_io.staging.datasets import Names, place_of

    names = Names(context.node, context.user, context.job)
    try:
        place = place_of(context.config, context.spec, names)
    except SpecError as error:
        return [_unknown(str(error), None)]
    if place is None or (place.tier == "shared" and not context.leader):
        return []
    settings = read_section(Settings, context.own, "<config file>", "check.residency")
    return [_result_for(context, place.name, place.path, settings.files_max)]


def _result_for(context: CheckContext, name: str, path: str, files_max: int) -> CheckResult:
    import os
    import time

    from slurm_io.filesystems.residency.judge import residency_in
    from slurm_io.filesystems.residency.pinned import open_root

    began_s = time.monotonic()
    try:
        root = open_root(path)
    except OSError as error:
        return _unreadable(name, error)
    try:
        surroundings = _surroundings(root.real, context.proc_root)
        paths, cut = _files(root, began_s + context.budget_s * _WALK_SHARE, files_max)
        asked = _spread(paths)
        if surroundings.kind in _PLAIN_KINDS:
            asked = asked[:_LOOKED_FOR_HOLES]
        until_s = began_s + context.budget_s * _ASK_SHARE
        answer = residency_in(root, asked, surroundings, until_s)
    except OSError as error:
        return _unreadable(name, error)
    finally:
        os.close(root.descriptor)
    return judge(name, answer, surroundings, len(paths) - len(asked), cut)


def judge(
    name: str, answer: ResidencyAnswer, surroundings: Surroundings, left_out: int, cut: str
) -> CheckResult:
    """The result for dataset `name`. `left_out` files were not asked on purpose; `cut` says why
    the list of files is not whole."""
    where = surroundings.fstype or surroundings.kind
    plain = surroundings.kind in _PLAIN_KINDS
    not_looked_at = _not_looked_at(answer, left_out, cut, plain)
    verdict = answer.answer
    if plain and verdict == "UNKNOWN" and not answer.counts["unknown"]:
        verdict = "OK"
    elif verdict == "OK" and cut:
        verdict = "UNKNOWN"
    source = answer.source
    if plain and not source:
        source = "file system kind"
    text = _text(name, answer, where, plain) if verdict != "UNKNOWN" else _why_unknown(answer, cut)
    return CheckResult(
        check="residency",
        answer=verdict,
        kind="job",
        text=text,
        subject=name,
        facts={
            "files": sum(answer.counts.values()) + answer.not_asked + left_out,
            "counts": dict(answer.counts),
            "missing_bytes": answer.missing_bytes,
            "suspect_bytes": answer.suspect_bytes,
            "source": source,
            "sources": dict(answer.sources),
            "fstype": where,
            "not_resident": [_row(each) for each in answer.listed[:_LISTED_MAX]],
        },
        not_looked_at=not_looked_at,
        commands=answer.commands,
    )


def _text(name: str, answer: ResidencyAnswer, where: str, plain: bool) -> str:
    from slurm_io.filesystems.sizes import bytes_text

    counts = answer.counts
    away, asked = counts["released"] + counts["partial"], sum(counts.values())
    if counts["released"]:
        return (
            f"{away} of {asked} files ({bytes_text(answer.missing_bytes)}) of dataset {name!a} are "
            f"in the archive only ({where}): the first read would block until they are restored; "
            "restore them first"
        )
    if away:
        return (
            f"{away} of {asked} files of dataset {name!a} are partly away ({where}): "
            f"{bytes_text(answer.missing_bytes)} would be fetched while GPUs wait; fetch them first"
        )
    if counts["suspect"]:
        return (
            f"{counts['suspect']} of {asked} files of dataset {name!a} have far fewer blocks than "
            f"their size ({where}): moved away, an unfinished copy, or sparse; look at them"
        )
    if plain:
        return f"local file system ({where}): always resident"
    return f"all {asked} files of dataset {name!a} are on the fast tier ({answer.source})"


def _why_unknown(answer: ResidencyAnswer, cut: str) -> str:
    known = sum(answer.counts.values()) - answer.counts["unknown"]
    if not known and not answer.counts["unknown"] and not answer.not_asked:
        return f"the dataset's folder holds no files{f' ({cut})' if cut else ''}"
    reason = answer.reason or cut or "no time left"
    return f"it cannot be told of all files whether they are on the fast tier: {reason}"


def _not_looked_at(
    answer: ResidencyAnswer, left_out: int, cut: str, plain: bool
) -> tuple[str, ...]:
    notes = []
    if answer.not_asked:
        notes.append(f"{answer.not_asked} files: no time left")
    if left_out:
        notes.append(f"holes in {left_out} files: {_LOOKED_FOR_HOLES} were looked at")
    if answer.counts["unknown"] and not plain:
        notes.append(f"{answer.counts['unknown']} files: {answer.reason}")
    if cut:
        notes.append(f"files beyond: {cut}")
    return tuple(notes)


def _row(each: FileState) -> dict[str, object]:
    from slurm_io.filesystems.residency.shell import shell_word

    return {
        "path": shell_word(each.path),
        "state": each.state,
        "size_bytes": each.size_bytes,
        "missing_bytes": each.missing_bytes,
        "source": each.source,
        "reason": each.reason,
    }


def _files(root: Root, until_s: float, files_max: int) -> tuple[list[str], str]:
    from slurm_io.filesystems.bounded_walk import BoundedWalk
    from slurm_io.filesystems.residency.pinned import descriptor_path

    walk = BoundedWalk(descriptor_path(root.descriptor), until_s, files_max, _SKIPPED_FOLDERS)
    return [found.path for found in walk], walk.cut


def _spread(paths: Sequence[str]) -> list[str]:
    """Every 64th, then their neighbours: what is reached in time is not all of one folder."""
    return [path for start in range(_SPREAD) for path in paths[start::_SPREAD]]


def _surroundings(real_path: str, proc_root: str) -> Surroundings:
    from slurm_io.filesystems.mounts import read_mounts
    from slurm_io.filesystems.residency.base import Surroundings

    mount = read_mounts(proc_root).of_path(real_path)
    if mount is None:
        return Surroundings("other")
    return Surroundings(mount.kind, mount.fstype, (*mount.options, *mount.super_options))


def _unreadable(name: str, error: OSError) -> CheckResult:
    return _unknown(f"the folder of dataset {name!a} cannot be read: {error.strerror}", name)


def _unknown(text: str, subject: str | None) -> CheckResult:
    return CheckResult("residency", "UNKNOWN", "job", text, subject)
