"""``py-spy record -f chrometrace``: the only one of its formats with a clock.

A JSON list of events: ``ph`` "B" (a frame began) or "E" (it ended), ``name``,
``args: {filename, line}``, ``pid``, ``tid``, ``ts`` in microseconds since the recorder began.
Events are written where a thread's stack changed from one sample to the next, so a stretch between
two changes held one stack. They are read one by one: a file cut anywhere gives what stood before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from slurm_io.stacktext.model import MOST_FRAMES, Frame, Stack, Stretch, Trace
from slurm_io.stacktext.texts import frame_of, text_of

MOST_EVENTS = 400_000
_LONGEST_US = 86_400_000_000
ROOTS = frozenset(
    ("<module>", "_bootstrap", "_run_module_as_main", "_run_code", "run_path", "_run_module_code")
)
"""Where a Python thread begins. A stack that begins elsewhere was torn while it was read, or is a
native thread that called into Python: nobody's state."""

_BLANKS = " \t\r\n,["
_Key = tuple[int, int]


class _Open:
    """The stack of one thread while events are read, root first; None stands for a torn frame."""

    def __init__(self) -> None:
        self.frames: list[Frame | None] = []
        self.since_us = 0


class _Builder:
    def __init__(self) -> None:
        self.stretches: list[Stretch] = []
        self.torn = 0
        self.torn_us = 0
        self.damaged = 0
        self.end_us = 0
        self._open: dict[_Key, _Open] = {}
        self._stacks: dict[Stack, Stack] = {}

    def take(self, event: dict[str, Any]) -> None:
        phase, name, pid, tid = (event.get(key) for key in ("ph", "name", "pid", "tid"))
        ts: Any = event.get("ts")
        key: Any = (pid, tid)
        if not (
            phase in ("B", "E") and isinstance(name, str) and _is_time(ts)
            and all(type(one) is int for one in key)
        ):  # fmt: skip
            self.damaged += 1
            return
        opened = self._open.setdefault(key, _Open())
        if ts < opened.since_us:
            self.damaged += 1
            return
        self._settle(key, opened, ts)
        if phase == "B":
            opened.frames.append(_frame(name, event.get("args")))
            if len(opened.frames) > MOST_FRAMES:
                opened.frames.clear()
                self.damaged += 1
        elif opened.frames:
            opened.frames.pop()
        else:
            self.damaged += 1

    def _settle(self, key: _Key, opened: _Open, ts: int) -> None:
        """The stack as it was until now held until `ts`."""
        since_us, opened.since_us = opened.since_us, ts
        self.end_us = max(self.end_us, ts)
        if ts == since_us or not opened.frames:
            return
        root = opened.frames[0]
        if root is None or root.short_name not in ROOTS or None in opened.frames:
            self.torn += 1
            self.torn_us += ts - since_us
            return
        stack = tuple(frame for frame in reversed(opened.frames) if frame is not None)
        stack = self._stacks.setdefault(stack, stack)
        self.stretches.append(Stretch(*key, since_us, ts, stack))


def parse_chrometrace(raw: bytes | str) -> Trace:
    """Stretches in order of their end. Never raises."""
    builder = _Builder()
    for event in _events(text_of(raw)):
        if event is None:
            builder.damaged += 1
        else:
            builder.take(event)
    return Trace(
        stretches=tuple(builder.stretches),
        torn=builder.torn,
        torn_us=builder.torn_us,
        damaged_events=builder.damaged,
        end_us=builder.end_us,
    )


def _events(text: str) -> Iterator[dict[str, Any] | None]:
    """Objects of the list one by one; None, and the end, where one cannot be read."""
    decoder, at = json.JSONDecoder(), 0
    for _ in range(MOST_EVENTS):
        while at < len(text) and text[at] in _BLANKS:
            at += 1
        if at >= len(text) or text[at] == "]":
            return
        try:
            event, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            yield None
            return
        yield event if isinstance(event, dict) else None
    yield None


def _frame(name: str, args: object) -> Frame | None:
    told = args if isinstance(args, dict) else {}
    file, line = told.get("filename", ""), told.get("line")
    if not isinstance(file, str):
        return None
    return frame_of(name, file, line if type(line) is int else None)


def _is_time(value: object) -> bool:
    return type(value) is int and 0 <= value < _LONGEST_US
