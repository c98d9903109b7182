"""All families at once: lines of the log in, findings out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from slurm_io.host.kernel_faults import (
    block,
    cpu,
    filesystem,
    gpu,
    lustre,
    md,
    memory,
    nfs,
    nvme,
    pcie,
)  # fmt: skip
from slurm_io.host.kernel_faults.model import Event, Finding, View
from slurm_io.host.kernel_log import KernelLine


class _Family(NamedTuple):
    """What a family's module has."""

    name: str
    starts: tuple[str, ...]
    parse: Callable[[str, float | None], Event | None]
    judge: Callable[[list[Event], View], list[Finding]]


_FAMILIES = tuple(
    _Family(module.FAMILY, module.STARTS, module.parse, module.judge)
    for module in (nvme, block, filesystem, md, nfs, lustre, cpu, memory, pcie, gpu)
)
STARTS: tuple[str, ...] = tuple(start for family in _FAMILIES for start in family.starts)
"""How every message begins that any family reads: a cheap filter over a whole log."""

_NO_TROUBLE = {
    "nvme": {"ready", "aborted"}, "filesystem": {"mounted"}, "nfs": {"ok"},
    "lustre": {"restored", "skipped"}, "cpu": {"at"},
}  # fmt: skip
_WORST_FIRST = ("FAIL", "DEGRADED", "UNKNOWN", "OK")
# "COMM[PID]: segfault at ... in FILE[...]": the kernel puts the name that a process gave itself (15
# bytes, escaped in /dev/kmsg) first, and that of its file behind. Any user can have both read as
# "XFS (dm-0): [7]: segfault ... in x Shutting down filesystem".
_OF_A_PROCESS = r"(?:\\x[0-9a-f]{2}|.){1,15}?\[\d+\]"


def events_of(lines: Iterable[KernelLine]) -> list[Event]:
    """Events in the log's order; lines that say nothing are left out."""
    events = (event_of(line) for line in lines)
    return [event for event in events if event is not None]


def tells_of_trouble(event: Event) -> bool:
    """False for news that only matter after trouble: mounted, connected again, answers again."""
    return event.what not in _NO_TROUBLE.get(event.family, ())


def event_of(line: KernelLine) -> Event | None:
    """What one line says, or None. Patterns match whole messages from their first letter."""
    for family in _FAMILIES:
        if line.message.startswith(family.starts):
            event = family.parse(line.message, line.at_s)
            if event is not None:
                return None if re.match(_OF_A_PROCESS, line.message) else event
    return None


def judge(events: Iterable[Event], view: View) -> list[Finding]:
    """Findings of all families, worst first; what any user can cause behind its like."""
    of_family: dict[str, list[Event]] = {}
    for event in events:
        of_family.setdefault(_judged_by(event), []).append(event)
    found = [
        finding
        for family in _FAMILIES
        if family.name in of_family
        for finding in family.judge(of_family[family.name], view)
    ]
    return sorted(found, key=lambda finding: (_WORST_FIRST.index(finding.answer), finding.by_user))


def _judged_by(event: Event) -> str:
    # Driver and block layer both tell of an NVMe drive's error: one family must count it once.
    of_nvme = event.family == block.FAMILY and event.subject.startswith("nvme")
    return nvme.FAMILY if of_nvme else event.family
