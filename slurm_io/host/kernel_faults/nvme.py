"""NVMe controllers: the word "timeout" from harmless to gone.

"completion polled" is a lost interrupt (the data came), "aborting" and "reset controller" are a
drive that did not answer for 30 s, an I/O error reached the file system, and "Removing after probe
failure" or "Disabling device after reset failure" is a drive that is no more. "Abort status: 0x0"
means that the abort succeeded. Words from drivers/nvme/host/{pci,core}.c of 4.18 to 6.18.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_io.host.kernel_faults.model import (
    Event,
    Finding,
    Pattern,
    View,
    disk_of,
    match_first,
    softened,
)  # fmt: skip
from slurm_io.model import CheckAnswer

FAMILY = "nvme"
STARTS = ("nvme", "block nvme")
_MANY_RESETS = 3  # each is half a minute without answers and throws the drive's queues away
_LBA_SECTORS = (1, 8)  # 512 and 4096 bytes in an LBA; the block layer counts 512 bytes
_SAME_ERROR_S = 2.0

_CONTROLLER = r"nvme (nvme\d+): "
_TIMEOUT = (
    _CONTROLLER
    + r"I/O (?:tag )?\d+(?: \([0-9a-f]{4}\))?(?: opcode 0x[0-9a-f]+)?(?: \([^)]{1,40}\))?"
    r" QID (\d+) timeout, (completion polled|aborting|reset controller|disable controller)"
    r"(?: req_op:.{0,80})?"
)
_ABORTED = _CONTROLLER + r"Abort status: 0x([0-9a-f]+)"
_RESET = (
    _CONTROLLER + r"(?:controller is down; will reset: CSTS=.{0,80}"
    r"|frozen state error detected, reset controller|Failed status: [0-9a-f]+, reset controller"
    r"|Device not ready; aborting reset.*|resetting controller due to AER)"
)
_GONE = (
    _CONTROLLER + r"(?:Removing after probe failure(?: status: -?\d+)?"
    r"|Disabling device after reset failure: -?\d+"
    r"|failure state error detected, request disconnect"
    r"|Device not ready; aborting initialisation.*)"
)
_READY = _CONTROLLER + r"\d+/\d+/\d+ default/read/poll queues"
_ERROR = (
    r"(nvme\d+(?:c\d+)?n\d+): ([\w /-]{1,40})\(0x([0-9a-f]{1,2})\) @ LBA (\d+), \d+ blocks, "
    r"(.{1,80}) \(sct 0x([0-9a-f]+) / sc 0x([0-9a-f]+)\).*"
)
_NO_PATH = r"block (nvme\d+n\d+): no available path - failing I/O"
_PATTERNS: tuple[Pattern, ...] = (
    ("timeout", " timeout, ", _TIMEOUT),
    ("io error", " @ LBA ", _ERROR),
    ("aborted", "Abort status", _ABORTED),
    ("reset", "reset", _RESET),
    ("gone", "Removing after", _GONE),
    ("gone", "Disabling device", _GONE),
    ("gone", "request disconnect", _GONE),
    ("gone", "aborting initialisation", _GONE),
    ("ready", "read/poll queues", _READY),
    ("no path", "no available path", _NO_PATH),
)
_OTHER_PATH = "recoverable transport"  # native multipath sends the command down another path
_HARMLESS_OPCODES = (0x08, 0x09)  # write zeroes, deallocate: a drive may refuse them


def parse(message: str, at_s: float | None) -> Event | None:
    """An NVMe message; None when it says nothing of a fault (or of recovery)."""
    matched = match_first(_PATTERNS, message)
    if matched is None:
        return None
    what, found = matched
    if what == "io error":
        return _error(found, at_s, message)
    details = {"action": found[3]} if what == "timeout" else {}
    return Event(FAMILY, what, found[1], at_s, message, details)


def io_errors(events: Iterable[Event]) -> list[Event]:
    """I/O errors the NVMe driver and the block layer told of, each once.

    Both print the same failed command, the driver by LBA, the block layer by 512-byte sector.
    """
    seen: list[Event] = []
    for event in events:
        if event.what == "io error" and not any(_is_same(event, earlier) for earlier in seen[-64:]):
            seen.append(event)
    return seen


def judge(events: list[Event], view: View) -> list[Finding]:
    """One finding for each drive that is said to have been in trouble."""
    drives: dict[str, list[Event]] = {}
    for event in events:
        drives.setdefault(_controller(event.subject), []).append(event)
    found = (_judge_drive(name, of_drive, view) for name, of_drive in drives.items())
    return [finding for finding in found if finding is not None]


def _judge_drive(name: str, events: list[Event], view: View) -> Finding | None:
    gone = _is_gone(events)
    recent = [event for event in events if view.is_recent(event)]
    timeouts = [event for event in recent if event.what == "timeout"]
    errors = [event for event in io_errors(recent) if event.details["status"] != _OTHER_PATH]
    # Only the page cache's echo of an error was left in the log: one error at least.
    errors = errors or [event for event in recent if event.what == "buffer error"][:1]
    resets = [event for event in recent if _is_reset(event)]
    no_path = [event for event in recent if event.what == "no path"]
    trouble = errors + timeouts + resets + no_path + [e for e in recent if e.what == "gone"]
    if not (gone or trouble):
        return None
    subject = disk_of(errors[0].subject) if errors else name
    use = view.device_use(subject)
    return Finding(
        FAMILY,
        subject,
        softened(_answer(gone, len(errors), len(resets), bool(no_path)), use),
        "node",
        _text(subject, gone, len(errors), len(resets), timeouts),
        _last_s(trouble or events),
        {
            "device": subject,
            "timeouts": len(timeouts),
            "timeouts_polled": sum(e.details["action"] == "completion polled" for e in timeouts),
            "resets": len(resets),
            "io_errors": len(errors),
            "removed": gone,
            "after_reset_alive": _is_alive(events) if resets else None,
            "used_by_job": use == "job",
        },
    )


def _answer(gone: bool, errors: int, resets: int, no_path: bool) -> CheckAnswer:
    failed = gone or errors or no_path or resets >= _MANY_RESETS
    return "FAIL" if failed else "DEGRADED"


def _text(subject: str, gone: bool, errors: int, resets: int, timeouts: list[Event]) -> str:
    if gone:
        return f"NVMe {subject} is gone: the kernel gave it up; reseat or replace the drive"
    if errors:
        return f"NVMe {subject}: {errors} I/O errors reached the file system; check or replace it"
    if resets:
        return f"NVMe {subject} did not answer and was reset {resets} times; check drive and slot"
    if not timeouts:
        return f"NVMe {subject} had no path left for a while; check controller and slot"
    if all(event.details["action"] == "completion polled" for event in timeouts):
        return f"NVMe {subject}: {len(timeouts)} lost interrupts (data came late, by polling)"
    return f"NVMe {subject}: {len(timeouts)} commands timed out and were aborted; watch the drive"


def _error(found: re.Match[str], at_s: float | None, message: str) -> Event | None:
    if int(found[3], 16) in _HARMLESS_OPCODES:
        return None
    lba = int(found[4])
    sectors = tuple(lba * sectors for sectors in _LBA_SECTORS)
    details = {"sectors": sectors, "said_by": "driver", "status": found[5]}
    return Event(FAMILY, "io error", found[1], at_s, message, details)


def _is_same(event: Event, earlier: Event) -> bool:
    if event.details["said_by"] == earlier.details["said_by"]:
        return False
    if disk_of(event.subject) != disk_of(earlier.subject):
        return False
    times = (event.at_s, earlier.at_s)
    apart_s = 0.0 if None in times else abs(times[0] - times[1])  # type: ignore[operator]
    if apart_s > _SAME_ERROR_S:
        return False
    return bool(set(event.details["sectors"]) & set(earlier.details["sectors"]))


def _is_reset(event: Event) -> bool:
    return (
        event.what == "timeout"
        and event.details["action"] == "reset controller"
        or (event.what == "reset" and "aborting reset" not in event.message)
    )


def _is_gone(events: list[Event]) -> bool:
    """The last word on whether there is a drive: a later start under this name brings one back."""
    state = False
    for event in events:
        if event.what in ("gone", "ready"):
            state = event.what == "gone"
    return state


def _is_alive(events: list[Event]) -> bool:
    """Whether the drive was heard of after its last reset."""
    alive = True
    for event in events:
        if _is_reset(event) or event.what == "gone":
            alive = False
        elif event.what == "ready" or event.details.get("action") == "completion polled":
            alive = True
    return alive


def _last_s(events: list[Event]) -> float | None:
    return max((event.at_s for event in events if event.at_s is not None), default=None)


def _controller(subject: str) -> str:
    found = re.match(r"nvme\d+", subject)
    return found[0] if found else subject
