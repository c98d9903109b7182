"""The kernel's log: what it said of disks, file systems and servers a job stands on.

What it checks: /dev/kmsg, back to boot or as far as the buffer reaches. NVMe timeouts, resets,
I/O errors and drives that are gone; I/O errors of other disks; ext4, xfs and btrfs errors and file
systems that went read-only; RAID members lost; NFS servers and Lustre targets that do not answer;
processors that are stuck; uncorrected memory and PCIe errors; GPUs that fell off the bus.

Why it matters: a drive that was reset and a file system that met an error look healthy from the
outside until the job reads that block.

Needs: root, or kernel.dmesg_restrict = 0. No tool is run.

Answers: states count whatever their age: a server's or target's last word, a drive that is gone, a
file system that is read-only. Errors count for window_s. OK: nothing, or trouble that is over (in
the facts). DEGRADED: lost interrupts, aborted commands and resets without a lost I/O, lost RAID
members with redundancy left, hung tasks, and any FAIL of a device the job does not stand on. FAIL,
fault of the node: I/O errors, a drive or file system that is gone, a stuck processor. FAIL, shared:
a server that does not answer. UNKNOWN: the log cannot be read.

What to do: what the result says; ``dmesg -T`` shows the lines around.

Known false alarms: the kernel limits how often it repeats a message, so that "server OK" may be
missing; the check mounts asks the server itself. Soft lockups on an overbooked virtual machine.

Settings: window_s, source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slurm_io.config import Setting, _key, read_section
from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import CHECKS, CheckContext, check

if TYPE_CHECKING:
    from slurm_io.filesystems.mounts import MountTable
    from slurm_io.host.kernel_faults.model import Finding, View
    from slurm_io.host.kernel_log import KernelLog

_LABEL = "check.kernel_log"
_RESOLVE_SHARE = 0.2
_READ_SHARE = 0.6
_MOST_RESULTS = 16
_MOST_NOTED = 8


@dataclass(frozen=True)
class Settings:
    """[check.kernel_log]: its own keys."""

    window_s: float = _key(
        86400.0, Setting("errors older than this are history", "a day", "s", 60, 31536000)
    )
    source: str = _key(
        "/dev/kmsg",
        Setting("the kernel's records, a device or a file in its form", "", is_path=True),
    )


@CHECKS.register("kernel_log")
@check(kind="node", scope="node", identity="root", policy="warn")
def kernel_log(context: CheckContext) -> list[CheckResult]:
    """One result for each thing in trouble, or one OK for the whole log."""
    import time

    from slurm_io.errors import HostError
    from slurm_io.host.kernel_faults.families import STARTS, events_of, judge, tells_of_trouble
    from slurm_io.host.kernel_log import read_kernel_log

    settings = read_section(Settings, context.own, "configuration", _LABEL)
    deadline_s = time.monotonic() + context.budget_s * _READ_SHARE
    try:
        log = read_kernel_log(settings.source, STARTS, deadline_s)
    except HostError as error:
        text = f"the kernel's log was not looked at: {error}"
        return [CheckResult("kernel_log", "UNKNOWN", "node", text)]
    events = events_of(log.lines)
    not_seen = _not_seen(log)
    if not any(map(tells_of_trouble, events)):
        return [_quiet(log, (), not_seen)]
    view = _view(context, settings, log)
    findings = judge(events, view)
    troubles = [finding for finding in findings if finding.answer != "OK"]
    if not troubles:
        return [_quiet(log, tuple(findings), not_seen)]
    return [_result(finding, view, not_seen) for finding in troubles[:_MOST_RESULTS]]


def _view(context: CheckContext, settings: Settings, log: KernelLog) -> View:
    """What of the log concerns this job: looked up only when there is something to judge."""
    from pathlib import Path

    from slurm_io.filesystems.mounts import read_mounts
    from slurm_io.host.kernel_faults.model import View

    table = read_mounts(Path(context.proc_root))
    points = _points_of_job(context, table)
    devices, addresses = _devices(context, table, points)
    return View(
        now_s=_now_s(context.proc_root, log),
        window_s=settings.window_s,
        devices=devices if len(table) else None,
        addresses=addresses if len(table) else None,
        servers=_users_of(table, points, "nfs") if len(table) else None,
        lustre=_users_of(table, points, "lustre") if len(table) else None,
    )


def _points_of_job(context: CheckContext, table: MountTable) -> set[str]:
    """Mount points of the spool, the dataset and the mounts every node must have."""
    from slurm_io.filesystems.required_mounts import parse_all_required
    from slurm_io.prolog.needed_paths import needed_paths, resolve

    needed = needed_paths(context)
    real = resolve((each.path for each in needed), context.budget_s * _RESOLVE_SHARE)
    found = {mount.mount_point for path in real.values() if (mount := table.of_path(path))}
    mounts = context.config.check.get("mounts")
    lines = tuple(mounts.own.get("required", ())) if mounts is not None else ()
    required = parse_all_required(lines, "configuration: check.mounts.required")
    return found | {each.mount_point for each in required}


def _devices(
    context: CheckContext, table: MountTable, points: set[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Block devices of all layers below the mounts, and the PCI addresses of their drives."""
    import os
    from pathlib import Path

    from slurm_io.filesystems.below import below
    from slurm_io.filesystems.block_devices import BlockDevices

    known = BlockDevices(Path(context.sys_root))
    names: set[str] = set()
    addresses: set[str] = set()
    for point in points:
        mount = table.at(point)
        if mount is None:
            continue
        found = below(mount, table, context.sys_root, known)
        names.update(found.all)
        for disk in found.disks:
            folder = os.path.realpath(f"{context.sys_root}/class/block/{disk}/device")
            addresses.update(part for part in folder.split("/") if part.count(":") == 2)
    return frozenset(names), frozenset(addresses)


def _users_of(table: MountTable, points: set[str], kind: str) -> dict[str, str]:
    """Server or file system name -> "job" when a mount of the job is from there, else "other"."""
    users: dict[str, str] = {}
    for mount in table:
        if mount.kind != kind:
            continue
        use = "job" if mount.mount_point in points else "other"
        for name in _names(mount.source, mount.option("addr"), kind):
            if users.get(name) != "job":
                users[name] = use
    return users


def _names(source: str, address: str | None, kind: str) -> list[str]:
    host, separator, path = source.rpartition(":/") if kind == "lustre" else source.partition(":/")
    if not separator:
        return []
    if kind == "lustre":
        return [path.split("/")[0]]
    return [name for name in (host, host.strip("[]"), address) if name]


def _now_s(proc_root: str, log: KernelLog) -> float | None:
    """Now on the log's clock. lxcfs shows a container's own uptime: then the newest record is
    later than now, and stands for it."""
    from slurm_io.host.read import read_optional_line

    words = (read_optional_line(f"{proc_root}/uptime") or "").split()
    try:
        up_s = float(words[0])
    except (ValueError, IndexError):
        return log.last_s
    return max(up_s, log.last_s or 0.0)


def _not_seen(log: KernelLog) -> tuple[str, ...]:
    found = []
    if not log.complete and log.first_s is not None:
        found.append(
            f"kernel messages before {log.first_s:.0f} s after boot: overwritten by newer ones"
        )
    if log.gaps:
        found.append("kernel messages that were overwritten while they were read")
    if log.unread:
        found.append(f"kernel messages behind the first {log.records}: {log.unread}")
    return tuple(found)


def _quiet(log: KernelLog, findings: tuple[Finding, ...], not_seen: tuple[str, ...]) -> CheckResult:
    """OK, with what is over or concerns nobody in the facts. Half a log proves nothing."""
    over = [f"{each.text} ({each.family})"[:200] for each in findings[:_MOST_NOTED]]
    facts: dict[str, Any] = {"messages": log.records, "since_boot_s": log.first_s, "over": over}
    if log.unread:
        text = f"the kernel's log was read in part only: {log.unread}"
        return CheckResult("kernel_log", "UNKNOWN", "node", text, None, facts, not_seen)
    text = "the kernel's log tells of no trouble with what this job stands on"
    return CheckResult("kernel_log", "OK", "node", text, None, facts, not_seen)


def _result(finding: Finding, view: View, not_seen: tuple[str, ...]) -> CheckResult:
    facts = {"family": finding.family, "at_boot_s": finding.last_s, **finding.facts}
    age_s = view.age_s(finding.last_s)
    facts["age_s"] = None if age_s is None else round(age_s, 1)
    ago = "" if age_s is None else f" (last said {_span(age_s)} ago)"
    return CheckResult(
        "kernel_log",
        finding.answer,
        finding.kind,
        _show(finding.text + ago),
        _show(finding.subject),
        facts,
        not_seen,
    )


def _span(seconds: float) -> str:
    for unit, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def _show(text: str) -> str:
    """Text from the log as one line that is safe to print."""
    return text if text.isprintable() else ascii(text)
