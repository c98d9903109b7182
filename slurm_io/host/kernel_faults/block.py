"""The block layer: I/O errors of any disk, whatever its driver.

Forms over the years: ``end_request: I/O error, dev sda, sector 1`` (2.6), ``blk_update_request:``
(3.18 to 4.16, 5.3 to 5.15), ``print_req_error:`` (4.17 to 5.2), and none of these (since 5.16).
"Buffer I/O error" is what the page cache says of the same error again. Discards and write-zeroes
that a drive refuses are no fault.
"""

from __future__ import annotations

import re

from slurm_io.host.kernel_faults import nvme
from slurm_io.host.kernel_faults.model import Event, Finding, View, disk_of, softened

FAMILY = "block"
STARTS = (
    "blk_update_request: ", "print_req_error: ", "end_request: ", "I/O error, dev ", "critical ",
    "timeout error, dev ", "device offline error, dev ", "protection error, dev ",
    "invalid error, dev ", "recoverable transport error, dev ", "Buffer I/O error on dev",
    "operation not supported error, dev ", "lost page write due to I/O error on ",
)  # fmt: skip

_ERROR = (
    r"(?:(?:blk_update_request|print_req_error|end_request): )?"
    r"(I/O|critical medium|critical target|critical nexus|critical space allocation|timeout"
    r"|device offline|protection|invalid|recoverable transport|operation not supported)"
    r" error, dev ([\w!/.-]{1,64}), sector (\d+)(?: op 0x[0-9a-f]+:\((\w+)\))?.*"
)
_BUFFER = (
    r"Buffer I/O error on dev(?:ice)? ([\w!/.-]{1,64}), logical block \d+.*"
    r"|lost page write due to I/O error on ([\w!/.-]{1,64})"
)
_NEVER_DATA = re.compile(r"(fd|sr|ram|zram|nbd|mmcblk)\d+")
_HARMLESS_OPERATIONS = ("DISCARD", "SECURE_ERASE", "WRITE_ZEROES", "WRITE_SAME")
_HARMLESS_WORDS = ("operation not supported", "critical nexus")
_WEAK_WORDS = ("recoverable transport",)  # another path takes over


def parse(message: str, at_s: float | None) -> Event | None:
    """A block layer message about a device that may hold data; None for anything else."""
    if " error, dev " in message and (found := re.fullmatch(_ERROR, message)):
        if found[1] in _HARMLESS_WORDS or (found[4] or "").upper() in _HARMLESS_OPERATIONS:
            return None
        details = {"sectors": (int(found[3]),), "said_by": "block", "status": found[1]}
        return _event("io error", found[2], at_s, message, details)
    if " I/O error on " in message and (found := re.fullmatch(_BUFFER, message)):
        return _event("buffer error", found[1] or found[2], at_s, message, {})
    return None


def judge(events: list[Event], view: View) -> list[Finding]:
    """One finding for each disk with errors inside the window. Those of NVMe drives are the NVMe
    family's own affair: it is given this family's events as well."""
    disks: dict[str, list[Event]] = {}
    for event in events:
        if view.is_recent(event) and not event.subject.startswith("nvme"):
            disks.setdefault(disk_of(event.subject), []).append(event)
    return [_judge_disk(name, of_disk, view) for name, of_disk in disks.items()]


def _judge_disk(name: str, events: list[Event], view: View) -> Finding:
    errors = nvme.io_errors(events)
    count = len(errors) or 1  # only the page cache's echo was left in the log: one at least
    weak = bool(errors) and all(event.details["status"] in _WEAK_WORDS for event in errors)
    use = view.device_use(name)
    return Finding(
        FAMILY,
        name,
        softened("DEGRADED" if weak else "FAIL", use),
        "node",
        f"disk {name}: {count} I/O errors; check or replace it",
        events[-1].at_s,
        {"device": name, "io_errors": count, "used_by_job": use == "job"},
        by_user=view.is_users_device(name),
    )


def _event(
    what: str, device: str, at_s: float | None, message: str, details: dict[str, object]
) -> Event | None:
    if _NEVER_DATA.fullmatch(device):
        return None
    return Event(FAMILY, what, device.replace("!", "/"), at_s, message, details)
