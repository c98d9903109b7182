"""Folded profiles: ``root;…;leaf COUNT``, as ``py-spy record -f raw`` and other profilers write.

Two ways to print a frame are read: ``name (file:line)`` and ``file:line - name``. With ``-s`` and
``-t`` py-spy puts ``process PID:"COMMAND"`` and ``thread (ID): NAME`` in front. A record is not a
line: a command, or a frame that was read while it changed, may hold line breaks. So a record ends
where a line ends in a blank and a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from slurm_io.stacktext.model import MOST_FRAMES, Folded
from slurm_io.stacktext.texts import parse_frame, text_of

_END = re.compile(r" (\d{1,12})\r?(?:\n|$(?!\n))")
_PROCESS = re.compile(r'process (\d{1,9}):"')
_THREAD = re.compile(r"thread \((?:0x[0-9A-Fa-f]+|\d+)\)(?:: (?P<name>[^;]*))?")


def parse_folded(raw: bytes | str) -> tuple[list[Folded], int]:
    """(records, characters that belong to no record). Torn frames are left out and counted in
    their record."""
    text = text_of(raw)
    records, at = [], 0
    for stack, samples, end in _records(text):
        record = _record(stack, samples)
        if record is not None:
            records.append(record)
        at = end
    return records, len(text[at:].strip())


def _records(text: str) -> Iterator[tuple[str, int, int]]:
    at = 0
    while True:
        quoted = _PROCESS.match(text, at)
        # Line breaks and numbers inside a command end nothing.
        start = text.find('";', quoted.end()) if quoted is not None else at
        found = _END.search(text, max(at, start))
        if found is None:
            return
        yield text[at : found.start()], int(found[1]), found.end()
        at = found.end()


def _record(stack: str, samples: int) -> Folded | None:
    pid, thread = None, ""
    process = _PROCESS.match(stack)
    if process is not None:
        pid, end = int(process[1]), stack.find('";', process.end())
        stack = stack[end + 2 :] if end >= 0 else ""
    parts = stack.split(";")
    named = _THREAD.fullmatch(parts[0]) if parts else None
    if named is not None:
        thread, parts = (named["name"] or ""), parts[1:]
    if not any(part.strip() for part in parts):
        return None
    found = [parse_frame(part) for part in parts]
    frames = [frame for frame in reversed(found) if frame is not None][:MOST_FRAMES]
    return Folded(tuple(frames), samples, thread, pid, len(parts) - len(frames))
