"""What the kernel's log complained of and is seen to be well now, so that nobody need hear of it.

A log tells when trouble began and often not when it ended: repeated messages are suppressed, a task
that woke up says nothing, an array is whole again in silence. Looked at only when the log complains
of such a thing; what cannot be looked at stays as the log has it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from slurm_io.host.kernel_faults import cpu, lustre, md, nfs
from slurm_io.host.kernel_faults.model import Event
from slurm_io.host.read import read_optional_text
from slurm_io.prolog.checks.base import CheckContext

if TYPE_CHECKING:
    from slurm_io.host.probe import Probe

Healthy = set[tuple[str, str]]
AskedMount = tuple[str, str]
"""Mount point and device number as in mountinfo (``0:50``)."""
_MOST_LOOKED_AT = 64
_COMPLAINTS = {
    cpu.FAMILY: ("hung task",),
    md.FAMILY: ("failed", "lost member"),
    nfs.FAMILY: ("hard", "soft"),
    lustre.FAMILY: ("lost", "evicted"),
}
_GOOD_NEWS = {nfs.FAMILY: ("ok",), lustre.FAMILY: ("restored",)}
_PIDS_OF_THE_HOST = "pid:[4026531836]"  # PROC_PID_INIT_INO; the log's numbers are the host's
_LUSTRE = ("{proc}/fs/lustre", "{sys}/kernel/debug/lustre")  # the latter since 2.17
_CLIENT_DEVICE = r"([\w.-]{1,64}-(?:OST|MDT)[0-9a-f]{4})-(?:osc|mdc)-[0-9a-f]{16}"
_FULL = r"(?m)^ *state: *FULL *$"


def healthy_now(
    events: Iterable[Event],
    context: CheckContext,
    servers: dict[str, set[AskedMount]],
    budget_s: float,
) -> frozenset[tuple[str, str]]:
    """(family, subject) of all that was looked at and is well; within `budget_s`.

    `servers`: NFS server -> mounts of it that may be asked (those the job stands on).
    """
    named = _complained_of(events)
    found = _awake(named[cpu.FAMILY], context.proc_root)
    if named[md.FAMILY]:
        found |= _whole(named[md.FAMILY], context)
    hanging = sorted(named[nfs.FAMILY] & servers.keys())
    points = {server: sorted(servers[server]) for server in hanging[:_MOST_LOOKED_AT]}
    targets = sorted(named[lustre.FAMILY])[:_MOST_LOOKED_AT]
    return frozenset(found | _answering(points, targets, context, budget_s))


def _complained_of(events: Iterable[Event]) -> dict[str, set[str]]:
    """Family -> subjects of trouble that may be over and of which the log does not say so."""
    named: dict[str, set[str]] = {family: set() for family in _COMPLAINTS}
    for event in events:
        if event.what in _COMPLAINTS.get(event.family, ()):
            named[event.family].add(event.subject)
        elif event.what in _GOOD_NEWS.get(event.family, ()):
            named[event.family].discard(event.subject)
    return named


def _awake(pids: set[str], proc_root: str) -> Healthy:
    """Tasks that are gone or not in an uninterruptible sleep any more."""
    if not pids or not _sees_host_pids(proc_root):
        return set()
    return {(cpu.FAMILY, pid) for pid in pids if _state_of(pid, proc_root) != "D"}


def _sees_host_pids(proc_root: str) -> bool:
    try:
        return os.readlink(f"{proc_root}/self/ns/pid") == _PIDS_OF_THE_HOST
    except OSError:
        return False


def _state_of(pid: str, proc_root: str) -> str:
    """The letter of a process or thread; "" when there is none of this number."""
    text = read_optional_text(f"{proc_root}/{pid}/stat") or ""
    return text.rpartition(")")[2].strip()[:1]


def _whole(names: set[str], context: CheckContext) -> Healthy:
    """Arrays with redundancy that miss nothing."""
    from slurm_io.filesystems.block_devices import BlockDevices
    from slurm_io.filesystems.md_arrays import read_arrays

    arrays = read_arrays(context.proc_root, context.sys_root, BlockDevices(context.sys_root)) or ()
    return {
        (md.FAMILY, array.name)
        for array in arrays
        if array.name in names
        and array.state == "active"
        and array.has_redundancy()
        and array.wanted is not None
        and array.wanted == array.working
        and not (array.missing() or array.failed_members() or array.gone_members())
    }


def _answering(
    points: dict[str, list[AskedMount]], targets: list[str], context: CheckContext, budget_s: float
) -> Healthy:
    """NFS servers all of whose mounts answer, and Lustre targets that are connected; asked in
    children that may hang, all at once."""
    from slurm_io.host.probe import Probe

    servers = {
        server: Probe([(_all_answer, (asked,))], budget_s) for server, asked in points.items()
    }
    roots = [form.format(proc=context.proc_root, sys=context.sys_root) for form in _LUSTRE]
    imports = Probe([(_connected, (roots, targets))], budget_s) if targets else None
    found = {(nfs.FAMILY, server) for server, probe in servers.items() if _value_of(probe)}
    connected = _value_of(imports) if imports is not None else None
    return found | {(lustre.FAMILY, target) for target in connected or ()}


def _value_of(probe: Probe) -> Any:
    """What its one call returned; None when it failed or did not answer in time."""
    while not probe.finished:
        probe.wait(max(0.0, probe.deadline_s - time.monotonic()))
        probe.poll()
    answer = probe.answers[0]
    return answer.value if answer is not None and answer.state == "ok" else None


def _all_answer(mounts: list[AskedMount]) -> bool:
    """Runs in a child. The size of an NFS mount is always asked of its server."""
    for point, device in mounts:
        os.statvfs(point)
        number = os.stat(point).st_dev
        if device != f"{os.major(number)}:{os.minor(number)}":
            return False  # something else is mounted there by now
    return True


def _connected(roots: list[str], targets: list[str]) -> list[str]:
    """The targets all of whose imports of this client are FULL. Runs in a child."""
    states: dict[str, list[bool]] = {}
    for root in roots:
        for kind in ("osc", "mdc"):
            for name in _names_in(f"{root}/{kind}"):
                found = re.fullmatch(_CLIENT_DEVICE, name)
                if found and found[1] in targets:
                    text = read_optional_text(f"{root}/{kind}/{name}/import") or ""
                    is_full = re.search(_FULL, text) is not None
                    states.setdefault(found[1], []).append(is_full)
    return [target for target, full in states.items() if all(full)]


def _names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
