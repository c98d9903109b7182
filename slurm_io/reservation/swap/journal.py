"""The journal of swaps: ``<state_dir>/reservations/<name>/swap.jsonl``, root's, only appended to.

One JSON object a line: ``{"swap", "at_s", "step", "event", "text", "facts"}``. Event ``begin``
opens a swap and ``end`` closes it; ``intent`` is on disk before anything is changed, ``done``
after. `facts` are the changes to :class:`Facts` that came with it. A line torn by a crash is as if
it had never been written: its act had not begun (intent), or is seen in the world (done).
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from slurm_io.errors import HostError
from slurm_io.host.root_folders import read_file
from slurm_io.reservation.history import reservation_folder
from slurm_io.reservation.swap.model import Facts, facts_from

FILE_NAME = "swap.jsonl"
Event = Literal["begin", "intent", "done", "failed", "undone", "end"]
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Unfinished:
    """A swap without an end: its number, what it knew, and its last line."""

    swap: str
    facts: Facts
    wish: Mapping[str, Any]
    last_step: str
    last_event: str
    last_text: str


class Journal:
    """Appends the lines of one swap."""

    def __init__(self, state_dir: str, reservation: str, swap: str) -> None:
        self._place = (state_dir, reservation)
        self.swap = swap

    def write(self, step: str, event: Event, text: str, facts: Mapping[str, Any]) -> None:
        """On disk when it returns. Raises HostError: then nothing may be done."""
        row = {
            "swap": self.swap,
            "at_s": round(time.time(), 3),
            "step": step,
            "event": event,
            "text": text,
            "facts": dict(facts),
        }
        self._append(json.dumps(row, separators=(",", ":")).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        with reservation_folder(*self._place, create=True) as folder:
            assert folder is not None
            try:
                _append(folder, line)
            except OSError as error:
                raise HostError(
                    f"{'/'.join(self._place)}: the journal cannot be written "
                    f"({error.strerror}): nothing more was done"
                ) from error


def unfinished(state_dir: str, reservation: str) -> Unfinished | None:
    """The last swap of this reservation, when it has no end. Raises HostError."""
    rows = _rows(state_dir, reservation)
    if not rows or rows[-1]["event"] == "end":
        return None
    swap = rows[-1]["swap"]
    own = [row for row in rows if row["swap"] == swap]
    facts = Facts()
    for row in own:
        with contextlib.suppress(TypeError, ValueError):
            facts = facts_from(row.get("facts", {}), facts)
    last = own[-1]
    wish = _wish_of(own[0])
    return Unfinished(swap, facts, wish, last["step"], last["event"], str(last.get("text")))


def excluded_for(state_dir: str, reservation: str, job: str | None) -> frozenset[str]:
    """Nodes that swaps put into this job's --exclude: once they are mended nothing else takes them
    out again."""
    by_swap: dict[str, Facts] = {}
    for row in _rows(state_dir, reservation):
        with contextlib.suppress(TypeError, ValueError):
            facts = by_swap.get(row["swap"])
            by_swap[row["swap"]] = facts_from(row.get("facts", {}), facts)
    own = [facts.excluded for facts in by_swap.values() if job is not None and facts.job == job]
    return frozenset(node for nodes in own for node in nodes)


def _wish_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A begin's text is the wish as JSON."""
    with contextlib.suppress(ValueError, TypeError):
        found = json.loads(row.get("text", ""))
        return found if isinstance(found, dict) else {}
    return {}


def _rows(state_dir: str, reservation: str) -> list[dict[str, Any]]:
    with reservation_folder(state_dir, reservation) as folder:
        raw = None if folder is None else read_file(folder, FILE_NAME, _MOST_BYTES)
    rows = []
    for line in (raw or b"").split(b"\n"):
        with contextlib.suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict) and {"swap", "step", "event"} <= row.keys():
                rows.append(row)
    return rows


def _append(folder: int, line: bytes) -> None:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(FILE_NAME, flags, 0o600, dir_fd=folder)
    try:
        size_bytes = os.fstat(descriptor).st_size
        is_torn = size_bytes > 0 and os.pread(descriptor, 1, size_bytes - 1) != b"\n"
        data = (b"\n" if is_torn else b"") + line
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
        if size_bytes == 0:
            os.fsync(folder)
    finally:
        os.close(descriptor)
