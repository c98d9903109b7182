"""The kernel's log: what it said of disks, file systems and servers a job stands on.

What it checks: /dev/kmsg, back to boot or as far as the buffer reaches. NVMe timeouts, resets,
I/O errors and drives that are gone; I/O errors of other disks; ext4, xfs and btrfs errors and file
systems that went read-only; RAID members lost; NFS servers and Lustre targets that do not answer;
processors that are stuck; uncorrected memory and PCIe errors; GPUs that fell off the bus.

Why it matters: a drive that was reset and a file system that met an error look healthy from the
outside until the job reads that block.

Needs: root, or kernel.dmesg_restrict = 0. No tool is run.

Answers: OK: nothing, or trouble that is over (in the facts). DEGRADED: lost interrupts, aborted
commands and resets without a lost I/O, lost RAID members with redundancy left, and any FAIL of a
device the job does not stand on. FAIL, fault of the node: I/O errors, a drive or file system that
is gone, a stuck processor. FAIL, shared: a server that does not answer. UNKNOWN: the log cannot be
read.

Faults of the node or of a service, told to jobs as the policy says: NVMe, disk, RAID and PCIe
errors; ext4, xfs and btrfs errors and shutdowns; stuck processors; memory; GPUs off the bus; Lustre
targets lost and evictions; NFS servers of the dataset, the spool and the mounts in mounts.required.

What any user can cause is recorded only (checks.json, report, ``slurm-io check``), told to no job
and never drains, whatever the policy: hung tasks (a hanging FUSE mount makes them), RCU stalls, a
lockup that ended an hour ago, NFS servers of other mounts (automounts reach any server), disks and
file systems on loop devices (images of containers). ``tell_all`` tells them too. Not read at all:
OOM kills, FUSE, crashes of programs, Xids of programs.

How long: errors and stalls for window_s after the line. A lockup is FAIL for an hour. States count
whatever their age, until good news or the next boot: a server's or target's last word, a drive that
is gone, a file system that is read-only or shut down. Over at once, whatever the log says, is what
is seen to be well: a server whose mounts the job stands on and that answers, a Lustre target whose
import is FULL, a redundant array that is whole again (its read errors stay), a task that does not
sleep uninterruptibly any more.

What to do: what the result says; ``dmesg -T`` shows the lines around.

Known false alarms: a drive that was reset and works since, for window_s. Soft lockups on an
overbooked virtual machine. Where /proc shows a container's own processes, hung tasks stay noted.

Settings: window_s, source, tell_all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurm_io.config import Setting, _key, read_section
from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import CHECKS, CheckContext, check
from slurm_io.records import dataclass

if TYPE_CHECKING:
    from slurm_io.host.kernel_faults.model import Finding, View
    from slurm_io.host.kernel_log import KernelLog

_LABEL = "check.kernel_log"
_READ_SHARE = 0.5
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
    tell_all: bool = _key(
        False,
        Setting(
            "tell jobs also what any user can cause (else it is only recorded)",
            "one user's hanging mount is no other user's news",
        ),
    )


@CHECKS.register("kernel_log")
@check(
    kind="node",
    scope="node",
    identity="root",
    policy="warn",
    needs=(
        "slurm_io.host.kernel_faults.families",
        "slurm_io.host.kernel_log",
    ),
)
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
    from slurm_io.prolog.log_view import view_of

    view = view_of(context, settings.window_s, log, events)
    findings = judge(events, view)
    troubles = [finding for finding in findings if finding.answer != "OK"]
    if not troubles:
        return [_quiet(log, tuple(findings), not_seen)]
    return [
        _result(finding, view, not_seen, finding.by_user and not settings.tell_all)
        for finding in troubles[:_MOST_RESULTS]
    ]


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


def _result(
    finding: Finding, view: View, not_seen: tuple[str, ...], record_only: bool
) -> CheckResult:
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
        record_only=record_only,
    )


def _span(seconds: float) -> str:
    for unit, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def _show(text: str) -> str:
    """Text from the log as one line that is safe to print."""
    return text if text.isprintable() else ascii(text)
