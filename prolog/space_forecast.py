"""Will what is still to be written fit: needs against what a file system has left. Pure.

No fixed share of a disk says anything here: 97 % of 404 TB leaves 12 TB, which is plenty for one
job and too little for the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from slurm_io.filesystems.capacity import Capacity
from slurm_io.filesystems.kinds import NETWORK_KINDS, Kind
from slurm_io.filesystems.sizes import bytes_text
from slurm_io.model import CheckAnswer, CheckResult, FaultKind


class Space(NamedTuple):
    """One file system: a path of it for people, its family and type, what is left."""

    path: str
    kind: Kind
    fstype: str
    capacity: Capacity


class Need(NamedTuple):
    """What is to be written. None: not known, `basis` says why; else `basis` says whence.

    `later_bytes` is what comes on top before old data goes (further checkpoints that are kept).
    """

    what: str
    size_bytes: int | None
    files: int | None
    basis: str
    later_bytes: int = 0


def judge_needs(space: Space, needs: Sequence[Need]) -> CheckResult:
    """One result for all the job's needs on one file system, always of kind "job"."""
    capacity = space.capacity
    known_bytes = sum(need.size_bytes or 0 for need in needs)
    known_files = sum(need.files or 0 for need in needs)
    later_bytes = known_bytes + sum(need.later_bytes for need in needs)
    unknown = [f"{need.what}: {need.basis}" for need in needs if need.size_bytes is None]
    what = " and ".join(need.what for need in needs)
    answer: CheckAnswer
    if capacity.avail_bytes is None:
        answer, text = "UNKNOWN", f"{space.path} ({space.fstype}) does not tell how much is free"
    elif known_bytes > capacity.avail_bytes or capacity.avail_bytes == 0:
        answer, text = "FAIL", f"{_asked(known_bytes, what)} but {_left(space)}: free space first"
    elif capacity.inodes_avail is not None and known_files > capacity.inodes_avail:
        answer = "FAIL"
        text = (
            f"{known_files} files are needed for {what} but {capacity.inodes_avail} inodes are "
            f"free on {space.path}: delete files first"
        )
    elif unknown:
        answer = "UNKNOWN"
        text = f"{_left(space)}, but how much is needed is not known ({'; '.join(unknown)})"
    elif later_bytes > capacity.avail_bytes:
        answer = "DEGRADED"
        text = f"{_left(space)}: enough for {what}, but {bytes_text(later_bytes)} will be needed"
    else:
        answer, text = "OK", f"{_asked(known_bytes, what)}, {_left(space)}"
    return CheckResult(
        "space", answer, "job", text, space.path, _facts(space, needs), _not_looked_at(space)
    )


def judge_minimum(space: Space, least_bytes: int, least_files: int) -> CheckResult:
    """One result for a mount of the node that the site wants room on.

    Only a file system of the node's own is the node's fault; a full server is not.
    """
    capacity = space.capacity
    kind: FaultKind = "shared" if space.kind in NETWORK_KINDS else "node"
    facts = {**_space_facts(space), "min_free_bytes": least_bytes, "min_free_files": least_files}
    answer: CheckAnswer = "OK"
    text = _left(space)
    if least_bytes and capacity.avail_bytes is None:
        answer, text = "UNKNOWN", f"{space.path} ({space.fstype}) does not tell how much is free"
    elif capacity.avail_bytes is not None and capacity.avail_bytes < least_bytes:
        answer = "FAIL"
        text = f"{_left(space)}, the site wants {bytes_text(least_bytes)}: clean it up"
    elif least_files and capacity.inodes_avail is None:
        answer, text = "UNKNOWN", f"{space.path} ({space.fstype}) does not count inodes"
    elif capacity.inodes_avail is not None and capacity.inodes_avail < least_files:
        answer = "FAIL"
        text = f"{capacity.inodes_avail} inodes free on {space.path}, the site wants {least_files}"
    return CheckResult("space", answer, kind, text, space.path, facts)


def _asked(known_bytes: int, what: str) -> str:
    return f"{bytes_text(known_bytes)} needed for {what}"


def _left(space: Space) -> str:
    capacity = space.capacity
    free = "an unknown amount" if capacity.avail_bytes is None else bytes_text(capacity.avail_bytes)
    return f"{free} free on {space.path} ({space.fstype})"


def _space_facts(space: Space) -> dict[str, Any]:
    return {"fstype": space.fstype, "fs_kind": space.kind, **space.capacity._asdict()}


def _facts(space: Space, needs: Sequence[Need]) -> Mapping[str, Any]:
    facts = _space_facts(space)
    facts["needs"] = [need._asdict() for need in needs]
    if space.kind == "nfs":
        facts["size_is"] = "what the server shows this user: perhaps a quota, not the disk"
    return facts


def _not_looked_at(space: Space) -> tuple[str, ...]:
    notes = []
    if space.kind != "nfs":
        notes.append("quotas of user, group or project: statvfs does not show them as a rule")
    if space.capacity.inodes_avail is None:
        notes.append("inodes: the file system does not count them")
    return tuple(notes)
