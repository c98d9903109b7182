"""Dumps of Python's faulthandler: on a crash, a time-out, or a signal that a job registered.

Threads begin ``Thread 0x… (most recent call first):`` or ``Current thread 0x… [NAME] (most …):``
(names from Python 3.14 on), frames are ``  File "PATH", line N in NAME``. faulthandler cuts file
and function names after 500 characters with ``...`` and a stack after 100 frames. Other lines of
stderr may stand between: they are no fault.
"""

from __future__ import annotations

import re

from slurm_io.stacktext.model import MOST_FRAMES, MOST_THREADS, Dump, Frame, Thread
from slurm_io.stacktext.texts import frame_of, text_of

_THREAD = re.compile(
    r"(?P<current>Current thread|Thread) (?P<id>0x[0-9A-Fa-f]{1,16})(?: \[(?P<name>[^\]]*)\])?"
    r" ?(?:\(most recent call first\))?:"
)
_STACK = re.compile(r"Stack \(most recent call first\):")
_FRAME = re.compile(r'\s+File "(?P<file>[^"]*)", line (?P<line>\d{1,9}|\?\?\?) in (?P<name>.+)')
_PREFIX = re.compile(r"(?:\[[^\]\s]{1,40}\]:? ?|\d{1,6}: )")


def parse_faulthandler(raw: bytes | str) -> Dump:
    """Its threads in the order printed; ``current`` is the one that crashed or was signalled."""
    threads: list[Thread] = []
    head: re.Match[str] | None = None
    frames: list[Frame] = []
    dropped = 0

    def end() -> None:
        nonlocal head
        if head is not None and len(threads) < MOST_THREADS:
            threads.append(_thread(head, frames))
        head = None
        frames.clear()

    for line in text_of(raw).splitlines():
        line = _without_prefix(line)
        begun = _THREAD.match(line) or _STACK.match(line)
        if begun is not None:
            end()
            head = begun
            continue
        found = _FRAME.fullmatch(line) if head is not None else None
        if found is None:
            if head is not None and line.strip().startswith("File "):
                dropped += 1
            continue
        number = int(found["line"]) if found["line"].isdecimal() else None
        frame = frame_of(found["name"].strip(), found["file"], number)
        if frame is None or len(frames) >= MOST_FRAMES:
            dropped += 1
        else:
            frames.append(frame)
    end()
    return Dump(tuple(threads), dropped_frames=dropped)


def _thread(head: re.Match[str], frames: list[Frame]) -> Thread:
    groups = head.groupdict()
    return Thread(
        frames=tuple(frames),
        ident=groups.get("id") or "",
        name=groups.get("name") or "",
        current=groups.get("current") != "Thread",
    )


def _without_prefix(line: str) -> str:
    """The rank that torchrun (``[rank0]: ``) or srun --label (``0: ``) puts in front."""
    found = _PREFIX.match(line)
    return line[found.end() :] if found is not None else line
