"""``mmdiag --waiters``: GPFS threads that wait, for how long and for what.

Text and ``-Y`` form::

    Waiting 64.3890 sec since 17:55:45, monitored, thread 120655 NSDThread: for I/O completion
    mmdiag:waiters:0:1:::61815:…:RebuildWorkThread:2021-09-23_15%3A31%3A34-0400:0.0890:monitored:…

The names of the ``-Y`` columns come from its HEADER line; colons in values are ``%3A``. A waiter is
"ignored" when GPFS itself expects it to last. Source: IBM Storage Scale documentation, "mmdiag".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_TEXT = re.compile(
    r"Waiting (?P<wait>\d{1,12}(?:\.\d{1,9})?) sec since (?P<since>[^,]*), (?P<kind>\w+), "
    r"thread (?P<thread>\d{1,10}) (?P<name>\w+)(?:: (?P<reason>.*))?",
    re.ASCII,
)
_SECONDS = re.compile(r"\d{1,12}(?:\.\d{1,9})?", re.ASCII)
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_REASONS = ("condVarReason", "auxReason", "delayReason")
# They wait for work, as long as there is none.
_IDLE_THREAD = re.compile(r"Fsck\w*|EventsExporter\w*")
_IDLE_REASON = re.compile(r"for poll on sock \d+|reason 'Waiting to reap fsck pointer'?")


class Waiter(NamedTuple):
    """One waiting thread. `reason` is empty when GPFS gives none."""

    name: str
    thread: str
    wait_s: float
    is_monitored: bool
    reason: str

    @property
    def is_housekeeping(self) -> bool:
        """One that GPFS or its nature marks as harmless, however long it lasts."""
        idle = _IDLE_THREAD.fullmatch(self.name) or _IDLE_REASON.fullmatch(self.reason)
        return not self.is_monitored or idle is not None


class Waiters(NamedTuple):
    """`damaged`: lines that are no waiter, headers and blank lines apart."""

    waiters: tuple[Waiter, ...]
    damaged: int


def parse_waiters(text: str) -> Waiters:
    """Either form."""
    return parse_waiters_y(text) if "mmdiag:waiters:" in text else parse_waiters_text(text)


def parse_waiters_text(text: str) -> Waiters:
    """The form for people."""
    waiters = []
    damaged = 0
    for line in filter(None, map(str.strip, text.splitlines())):
        found = _TEXT.fullmatch(line)
        if found is not None:
            kind, reason = found["kind"], found["reason"] or ""
            waiters.append(
                Waiter(
                    found["name"], found["thread"], float(found["wait"]), kind != "ignored", reason
                )
            )
        elif not line.startswith("==="):
            damaged += 1
    return Waiters(tuple(waiters), damaged)


def parse_waiters_y(text: str) -> Waiters:
    """The ``-Y`` form, by the names of its own HEADER line."""
    waiters = []
    names: list[str] = []
    damaged = 0
    for line in filter(None, map(str.strip, text.splitlines())):
        fields = line.split(":")
        if fields[:3] == ["mmdiag", "waiters", "HEADER"]:
            names = fields
            continue
        waiter = _waiter_y(names, fields)
        damaged += waiter is None
        waiters += [] if waiter is None else [waiter]
    return Waiters(tuple(waiters), damaged)


def longest(waiters: Iterable[Waiter], least_s: float) -> list[Waiter]:
    """Those that last `least_s` or longer and are no housekeeping, longest first."""
    found = [each for each in waiters if each.wait_s >= least_s and not each.is_housekeeping]
    return sorted(found, key=lambda each: -each.wait_s)


def _waiter_y(names: list[str], fields: list[str]) -> Waiter | None:
    if fields[:2] != ["mmdiag", "waiters"] or not names:
        return None
    # The first three fields are no columns; reserved columns share a name, which harms nobody.
    row = {name: _unescape(value) for name, value in zip(names[3:], fields[3:], strict=False)}
    wait = row.get("waitTime", "")
    if not row.get("threadName") or not _SECONDS.fullmatch(wait):
        return None
    reason = next((row[name] for name in _REASONS if row.get(name)), "")
    is_monitored = row.get("isMonitored", "") != "ignored"
    return Waiter(row["threadName"], row.get("threadId", ""), float(wait), is_monitored, reason)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
