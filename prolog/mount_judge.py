"""What is said of one mount by its row in mountinfo and by what it answered: the check of mounts.

One result for each, in this order: not mounted, the wrong one, silent or dead, read-only, without
a size, other than wanted in small things, well.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from slurm_io.filesystems.kinds import NETWORK_KINDS
from slurm_io.filesystems.required_mounts import missing_options, read_only_why, source_likeness
from slurm_io.model import CheckAnswer, CheckResult, FaultKind
from slurm_io.prolog.checks.base import shown
from slurm_io.records import dataclass

if TYPE_CHECKING:
    from slurm_io.filesystems.mounts import Mount, MountTable
    from slurm_io.filesystems.required_mounts import RequiredMount
    from slurm_io.host.probe import Answer

_NETWORK_ERRORS = ("ESTALE", "EIO", "ENOTCONN", "ESHUTDOWN", "EHOSTDOWN", "ETIMEDOUT", "ENODEV",
                   "EHOSTUNREACH", "ENXIO", "EUCLEAN", "ENODATA", "EREMOTEIO")  # fmt: skip


@dataclass(frozen=True)
class WantedMount:
    """One mount point to look at, and for whom."""

    mount_point: str
    labels: tuple[str, ...]
    writable: bool
    required: RequiredMount | None = None


def judge(
    wanted: WantedMount, table: MountTable, answers: tuple[Answer, Answer | None], busy: bool
) -> CheckResult:
    """The result for one mount. `answers`: of its root, and of its size where that was asked.

    `busy`: the node is too busy for its own children, so silence proves nothing.
    """
    answer, space = answers
    find = table.of_path if wanted.required is None else table.at
    mount = find(wanted.mount_point)
    if mount is None or mount.fstype == "autofs":
        return _absent(wanted, table, answer)
    wrong = _wrong_mount(wanted, mount)
    if wrong is not None:
        return wrong
    silence = _no_answer(wanted, mount, answer, busy)
    if silence is not None:
        return silence
    facts = _facts(mount) | {"answered_s": round(answer.value["answered_s"], 4)}
    if answer.value["empty"]:
        facts["empty"] = True
    return _states(wanted, mount, table, facts, space)


def judge_covered(wanted: WantedMount, table: MountTable) -> CheckResult:
    """FAIL for a mount point that a user's own file system covers: nothing was asked of it."""
    mount = table.of_path(wanted.mount_point)
    assert mount is not None
    point, owner = shown(wanted.mount_point), mount.option("user_id")
    text = f"{point} is covered by a file system of user {owner}; umount -l it, close the folder"
    return _result(wanted, "FAIL", "node", text, _facts(mount))


def _absent(wanted: WantedMount, table: MountTable, answer: Answer) -> CheckResult:
    point = wanted.mount_point
    above = table.of_path(point)
    if above is not None and above.fstype == "autofs":
        text = f"{shown(point)} was not mounted by autofs: {answer.reason or 'nothing came'}"
    else:
        text = f"{shown(point)} is not mounted; mount it before jobs run here"
    return _result(wanted, "FAIL", "node", text, {}, commands=(f"mount {_quoted(point)}",))


def _wrong_mount(wanted: WantedMount, mount: Mount) -> CheckResult | None:
    """FAIL where another file system is mounted than the admin said."""
    required = wanted.required
    if required is None:
        return None
    point, facts = shown(wanted.mount_point), _facts(mount)
    if required.fstype and not _same_type(required.fstype, mount.fstype):
        text = (
            f"{point} is {shown(mount.fstype)}, not {shown(required.fstype)}; mount the right one"
        )
        return _result(wanted, "FAIL", "node", text, facts)
    if required.source and source_likeness(required.source, mount) == "other":
        text = (
            f"{point} comes from {shown(mount.source)}, not from {shown(required.source)}; "
            "mount the right one"
        )
        return _result(wanted, "FAIL", "node", text, facts)
    return None


def _no_answer(wanted: WantedMount, mount: Mount, answer: Answer, busy: bool) -> CheckResult | None:
    """FAIL where the mount hangs or gives an error; UNKNOWN where that is not proven."""
    if answer.state == "ok":
        return None
    kind = _fault_kind(mount)
    point, facts = shown(wanted.mount_point), _facts(mount)
    if answer.state == "timed out":
        facts["abandoned_pid"] = answer.abandoned_pid
        if busy:
            text = f"{point}: not looked at, this node is too busy to run a child"
            return _result(wanted, "UNKNOWN", kind, text, facts)
        text = f"{point} ({mount.fstype}) hangs: {answer.reason}; {_whom_to_ask(mount, kind)}"
        return _result(wanted, "FAIL", kind, text, facts)
    name = errno.errorcode.get(answer.error_number or 0, "")
    facts["error"] = name or answer.reason
    if name in _NETWORK_ERRORS:
        text = f"{point} ({mount.fstype}) is mounted but dead: {answer.reason}; remount it"
        return _result(wanted, "FAIL", kind, text, facts)
    text = f"{point}: could not be looked at: {answer.reason}"
    return _result(wanted, "UNKNOWN", kind, text, facts)


def _states(
    wanted: WantedMount,
    mount: Mount,
    table: MountTable,
    facts: dict[str, Any],
    space: Answer | None,
) -> CheckResult:
    """A mount that is the right one and answers: read-only, and small differences."""
    covered = sum(other.mount_point == mount.mount_point for other in table) - 1
    if covered > 0:
        facts["covers_mounts"] = covered
    why = read_only_why(mount)
    point = shown(wanted.mount_point)
    if why and wanted.writable:
        text = f"{point} is read-only ({why}) and must be written; {_read_only_remedy(why)}"
        return _result(wanted, "FAIL", "node", text, facts)
    if why == "after an error":
        text = f"{point} went read-only after an error; {_read_only_remedy(why)}"
        return _result(wanted, "DEGRADED", "node", text, facts)
    if space is None or space.state != "ok":
        why_not = space.reason if space is not None else "no answer"
        text = f"{point} answers, but not statvfs ({why_not}): is a storage target down?"
        return _result(wanted, "DEGRADED", _fault_kind(mount), text, facts)
    different = _differences(wanted, mount)
    if different:
        return _result(wanted, "DEGRADED", "node", f"{point}: {'; '.join(different)}", facts)
    return _result(wanted, "OK", "node", f"{point} ({mount.fstype}) answers", facts)


def _differences(wanted: WantedMount, mount: Mount) -> list[str]:
    if wanted.required is None:
        return []
    found = []
    source = wanted.required.source
    if source and source_likeness(source, mount) == "other name":
        found.append(
            f"comes from {shown(mount.source)}, wanted {shown(source)}: "
            "the same by another name, or the wrong server or disk?"
        )
    if missing := missing_options(wanted.required, mount):
        found.append(f"lacks the options {shown(','.join(missing))}")
    if "ro" in wanted.required.options and "ro" not in (*mount.options, *mount.super_options):
        found.append("is writable, wanted read-only")
    return found


def _fault_kind(mount: Mount) -> FaultKind:
    return "shared" if mount.kind in NETWORK_KINDS else "node"


def _whom_to_ask(mount: Mount, kind: FaultKind) -> str:
    if kind == "shared":
        return f"ask the admins of {shown(mount.source)}"
    return "look at its disks (check kernel_log)"


def _read_only_remedy(why: str) -> str:
    if why == "after an error":
        return "see check kernel_log, unmount and repair it"
    return "remount it with rw"


def _same_type(wanted: str, fstype: str) -> bool:
    """NFS is nfs for version 3 and nfs4 for 4: "nfs" asks for any, "nfs4" for 4."""
    return wanted == fstype or (wanted == "nfs" and fstype == "nfs4") or fstype == f"fuse.{wanted}"


def _facts(mount: Mount) -> dict[str, Any]:
    facts: dict[str, Any] = {"fstype": mount.fstype, "source": shown(mount.source)}
    if mount.root != "/":
        facts["root"] = shown(mount.root)  # a bind mount, a subvolume, a Lustre subdirectory
    return facts


def _result(
    wanted: WantedMount,
    answer: CheckAnswer,
    kind: FaultKind,
    text: str,
    facts: dict[str, Any],
    commands: tuple[str, ...] = (),
) -> CheckResult:
    who = [label for label in wanted.labels if label != "required"]
    facts = facts | {"for": list(wanted.labels)}
    if who and answer != "OK":
        text += f" (holds: {', '.join(who)})"
    return CheckResult(
        "mounts", answer, kind, text, shown(wanted.mount_point), facts, commands=commands
    )


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)
