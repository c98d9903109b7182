"""Mounts a job stands on: there, the right ones, writable, and answering.

What it checks: the mounts the admin requires, and those that hold the job's dataset and the spool:
present, of the wanted type and source, with the wanted options, not read-only where it must be
written, and answering: its root is looked at and listed by a child of its own that may hang.

Why it matters: a mount that is in /proc/mounts may be dead (a lost server, a file system that shut
itself down), and a program that touches it sleeps where no signal reaches it. A missing mount is a
plain folder: jobs read nothing there, or fill the root disk.

Needs: /proc/self/mountinfo. No tool is run, and no other mount is touched.

Answers: OK. DEGRADED: another name of the server or device than wanted, a wanted option missing, a
file system that went read-only by itself where reading is enough, or one that lists its root but
does not tell its size. FAIL: missing, another type or
export, read-only where it must be written, an error instead of an answer, or no answer in time. The
fault is the node's for missing, wrong and local ones; shared for a network file system that does
not answer; the job's where the user chose the path. UNKNOWN: mountinfo cannot be read, or the node
is too busy for its own children.

What to do: mount it (``systemctl restart remote-fs.target``, ``mount MOUNTPOINT``); for one that
hangs ask the storage's admins, then ``umount -l MOUNTPOINT``; for one that went read-only see the
check kernel_log, unmount and repair it.

Known false alarms: a server known under two names reads DEGRADED: write the name mountinfo shows.
A network file system slower than answer_s at the first touch after a long rest: raise answer_s.

Settings: required, answer_s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from slurm_io.config import Setting, _key, read_section
from slurm_io.model import CheckResult, FaultKind
from slurm_io.prolog.checks.base import CHECKS, CheckContext, check

if TYPE_CHECKING:
    from slurm_io.filesystems.mounts import Mount, MountTable
    from slurm_io.filesystems.required_mounts import RequiredMount
    from slurm_io.host.probe import Answer, Probe

_LABEL = "check.mounts"
_RESOLVE_SHARE = 0.25  # of the answer's time: to find out which mounts the paths are on
_MARGIN_S = 0.15  # left to gather answers, kill children and report
_CONTROL_S = 0.25
_LEAST_S = 0.05
_NETWORK_ERRORS = ("ESTALE", "EIO", "ENOTCONN", "ESHUTDOWN", "EHOSTDOWN", "ETIMEDOUT", "ENODEV",
                   "EHOSTUNREACH", "ENXIO", "EUCLEAN", "ENODATA", "EREMOTEIO")  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """[check.mounts]: its own keys."""

    required: tuple[str, ...] = _key(
        (),
        Setting(
            'mounts every node must have, each "/scratch fstype=lustre '
            'source=10.0.0.1@o2ib:/scratch options=rw,flock"; all but the mount point optional',
            "only the site knows",
        ),
    )
    answer_s: float = _key(
        1.0, Setting("a mount that does not answer by then hangs", "metadata take ms", "s", 0.1, 30)
    )


class _Wanted(NamedTuple):
    """One mount point to look at, and for whom."""

    mount_point: str
    labels: tuple[str, ...]
    writable: bool
    by_user: bool
    required: RequiredMount | None = None


@CHECKS.register("mounts")
@check(kind="node", scope="node", identity="root", policy="warn")
def mounts(context: CheckContext) -> list[CheckResult]:
    """One result for each mount that matters."""
    import time
    from pathlib import Path

    from slurm_io.filesystems.mounts import read_mounts
    from slurm_io.filesystems.required_mounts import parse_all_required
    from slurm_io.prolog.needed_paths import needed_paths, resolve

    began_s = time.monotonic()
    settings = read_section(Settings, context.own, "configuration", _LABEL)
    required = parse_all_required(settings.required, f"configuration: {_LABEL}.required")
    answer_s = min(settings.answer_s, max(_LEAST_S, context.budget_s * 0.7 - _MARGIN_S))
    needed = needed_paths(context)
    # Walking the paths may mount something (autofs), so the table is read afterwards.
    real = resolve((each.path for each in needed), answer_s * _RESOLVE_SHARE)
    table = read_mounts(Path(context.proc_root))
    if not len(table):
        return [_unreadable(context)]
    wanted = _wanted(required, [(each, real[each.path]) for each in needed], table)
    left_s = context.budget_s - _MARGIN_S - (time.monotonic() - began_s)
    answers = _ask([each.mount_point for each in wanted], max(_LEAST_S, min(answer_s, left_s)))
    if any(_may_be_automount(each, table) for each in wanted):
        table = read_mounts(Path(context.proc_root))
    busy = _node_is_busy([first for first, _ in answers.values()])
    return [_judge(each, table, answers[each.mount_point], busy) for each in wanted]


def _wanted(
    required: tuple[RequiredMount, ...], needed: list[tuple[Any, str]], table: MountTable
) -> list[_Wanted]:
    """Required mounts in the admin's order, then the others that the job's paths are on."""
    found: dict[str, _Wanted] = {
        each.mount_point: _Wanted(each.mount_point, ("required",), each.writable, False, each)
        for each in required
    }
    for path, real in needed:
        mount = table.of_path(real)
        # What autofs has not mounted yet is asked by its own path: that mounts it.
        is_mounted = mount is not None and mount.fstype != "autofs"
        point = mount.mount_point if is_mounted and mount is not None else real
        before = found.get(point, _Wanted(point, (), False, path.by_user))
        found[point] = _Wanted(
            point,
            (*before.labels, path.label),
            before.writable or path.writable,
            before.by_user and path.by_user,
            before.required,
        )
    return list(found.values())


def _ask(points: list[str], timeout_s: float) -> dict[str, tuple[Answer, Answer | None]]:
    """Each mount's answer, all asked at once: one that hangs hides no other."""
    import time

    from slurm_io.host.probe import Answer, Probe

    running: dict[str, Probe] = {
        point: Probe([(_look, (point,)), (_look_at_space, (point,))], timeout_s) for point in points
    }
    for probe in running.values():
        while not probe.finished:
            probe.wait(max(0.0, probe.deadline_s - time.monotonic()))
            probe.poll()
    silent = Answer("error", reason="the child gave no answer")
    return {
        point: (probe.answers[0] or silent, probe.answers[1]) for point, probe in running.items()
    }


def _look(point: str) -> dict[str, Any]:
    """What the root of a mount answers. Runs in a child; opening it triggers an automount."""
    import os
    import time

    began_s = time.monotonic()
    descriptor = os.open(point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with os.scandir(descriptor) as entries:
            is_empty = next(entries, None) is None
    except PermissionError:
        is_empty = False  # root is squashed on most network file systems: it answered
    return {"empty": is_empty, "answered_s": time.monotonic() - began_s}


def _look_at_space(point: str) -> bool:
    """Whether the file system tells its size: on Lustre every storage target must answer."""
    import os

    return os.statvfs(point).f_blocks > 0


def _node_is_busy(answers: list[Answer]) -> bool:
    """Whether silence may be the node's own: no child answered, and a trivial one does not."""
    import os

    from slurm_io.host.probe import probe

    silent = [answer for answer in answers if answer.state == "timed out"]
    if not silent or len(silent) < len(answers):
        return False
    if any(answer.abandoned_pid is not None for answer in silent):
        return False  # it sleeps in the kernel: that is no lack of processors
    return probe(os.getpid, timeout_s=_CONTROL_S).state != "ok"


def _may_be_automount(wanted: _Wanted, table: MountTable) -> bool:
    mount = table.of_path(wanted.mount_point)
    return mount is not None and mount.fstype == "autofs"


def _judge(
    wanted: _Wanted, table: MountTable, answers: tuple[Answer, Answer | None], busy: bool
) -> CheckResult:
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


def _absent(wanted: _Wanted, table: MountTable, answer: Answer) -> CheckResult:
    point = wanted.mount_point
    above = table.of_path(point)
    if above is not None and above.fstype == "autofs":
        text = f"{_show(point)} was not mounted by autofs: {answer.reason or 'nothing came'}"
    else:
        text = f"{_show(point)} is not mounted; mount it before jobs run here"
    kind: FaultKind = "job" if wanted.by_user else "node"
    return _result(wanted, "FAIL", kind, text, {}, commands=(f"mount {_quoted(point)}",))


def _wrong_mount(wanted: _Wanted, mount: Mount) -> CheckResult | None:
    """FAIL where another file system is mounted than the admin said."""
    from slurm_io.filesystems.required_mounts import source_likeness

    required = wanted.required
    if required is None:
        return None
    point, facts = _show(wanted.mount_point), _facts(mount)
    if required.fstype and not _same_type(required.fstype, mount.fstype):
        text = (
            f"{point} is {_show(mount.fstype)}, not {_show(required.fstype)}; mount the right one"
        )
        return _result(wanted, "FAIL", "node", text, facts)
    if required.source and source_likeness(required.source, mount) == "other":
        text = (
            f"{point} comes from {_show(mount.source)}, not from {_show(required.source)}; "
            "mount the right one"
        )
        return _result(wanted, "FAIL", "node", text, facts)
    return None


def _no_answer(wanted: _Wanted, mount: Mount, answer: Answer, busy: bool) -> CheckResult | None:
    """FAIL where the mount hangs or gives an error; UNKNOWN where that is not proven."""
    import errno

    if answer.state == "ok":
        return None
    kind = _fault_kind(wanted, mount)
    point, facts = _show(wanted.mount_point), _facts(mount)
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
    wanted: _Wanted,
    mount: Mount,
    table: MountTable,
    facts: dict[str, Any],
    space: Answer | None,
) -> CheckResult:
    """A mount that is the right one and answers: read-only, and small differences."""
    from slurm_io.filesystems.required_mounts import read_only_why

    covered = sum(other.mount_point == mount.mount_point for other in table) - 1
    if covered > 0:
        facts["covers_mounts"] = covered
    why = read_only_why(mount)
    point = _show(wanted.mount_point)
    local_kind: FaultKind = "job" if wanted.by_user else "node"
    if why and wanted.writable:
        text = f"{point} is read-only ({why}) and must be written; {_read_only_remedy(why)}"
        return _result(wanted, "FAIL", local_kind, text, facts)
    if why == "after an error":
        text = f"{point} went read-only after an error; {_read_only_remedy(why)}"
        return _result(wanted, "DEGRADED", local_kind, text, facts)
    if space is None or space.state != "ok":
        why_not = space.reason if space is not None else "no answer"
        text = f"{point} answers, but not statvfs ({why_not}): is a storage target down?"
        return _result(wanted, "DEGRADED", _fault_kind(wanted, mount), text, facts)
    different = _differences(wanted, mount)
    if different:
        return _result(wanted, "DEGRADED", local_kind, f"{point}: {'; '.join(different)}", facts)
    return _result(wanted, "OK", local_kind, f"{point} ({mount.fstype}) answers", facts)


def _differences(wanted: _Wanted, mount: Mount) -> list[str]:
    from slurm_io.filesystems.required_mounts import missing_options, source_likeness

    if wanted.required is None:
        return []
    found = []
    source = wanted.required.source
    if source and source_likeness(source, mount) == "other name":
        found.append(
            f"comes from {_show(mount.source)}, wanted {_show(source)}: "
            "the same by another name, or the wrong server or disk?"
        )
    if missing := missing_options(wanted.required, mount):
        found.append(f"lacks the options {_show(','.join(missing))}")
    if "ro" in wanted.required.options and "ro" not in (*mount.options, *mount.super_options):
        found.append("is writable, wanted read-only")
    return found


def _fault_kind(wanted: _Wanted, mount: Mount) -> FaultKind:
    from slurm_io.filesystems.kinds import NETWORK_KINDS

    if wanted.by_user:
        return "job"
    return "shared" if mount.kind in NETWORK_KINDS else "node"


def _whom_to_ask(mount: Mount, kind: FaultKind) -> str:
    if kind == "shared":
        return f"ask the admins of {_show(mount.source)}"
    return "look at its disks (check kernel_log)"


def _read_only_remedy(why: str) -> str:
    if why == "after an error":
        return "see check kernel_log, unmount and repair it"
    return "remount it with rw"


def _same_type(wanted: str, fstype: str) -> bool:
    """NFS is nfs for version 3 and nfs4 for 4: "nfs" asks for any, "nfs4" for 4."""
    return wanted == fstype or (wanted == "nfs" and fstype == "nfs4") or fstype == f"fuse.{wanted}"


def _facts(mount: Mount) -> dict[str, Any]:
    facts: dict[str, Any] = {"fstype": mount.fstype, "source": _show(mount.source)}
    if mount.root != "/":
        facts["root"] = _show(mount.root)  # a bind mount, a subvolume, a Lustre subdirectory
    return facts


def _unreadable(context: CheckContext) -> CheckResult:
    text = f"mounts could not be looked at: {context.proc_root}/self/mountinfo cannot be read"
    return CheckResult("mounts", "UNKNOWN", "node", text)


def _result(
    wanted: _Wanted,
    answer: Any,
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
        "mounts", answer, kind, text, _show(wanted.mount_point), facts, commands=commands
    )


def _show(text: str) -> str:
    """Text from the system as one line that is safe to print."""
    return text if text.isprintable() and text.isascii() else ascii(text)


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)
