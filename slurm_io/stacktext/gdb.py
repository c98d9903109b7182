"""Backtraces of gdb (``bt``, ``thread apply all bt``): native frames with their arguments.

``#1  0x00007f… in NAME (ARG=VALUE, …) at FILE:LINE`` or ``from LIBRARY``. Arguments are kept as
text where they hold what no frame says: a path that is walked, a callback's name.
"""

from __future__ import annotations

import re

from slurm_io.records import dataclass
from slurm_io.stacktext.model import MOST_FRAMES, MOST_THREADS, Frame
from slurm_io.stacktext.texts import frame_of, text_of

_THREAD = re.compile(r"Thread (?P<id>\d{1,9})\b.*")
_FRAME = re.compile(
    r"#(?P<number>\d{1,5})\s+(?:0x[0-9a-fA-F]+ in )?(?P<name>.+?) ?\((?P<arguments>.*)\)"
    r"(?: at (?P<file>\S.*?):(?P<line>\d{1,9})| from (?P<library>\S.*?))?\s*"
)
_PATH = re.compile(r'\b(?:dir|path|pathname|filename|name|file|fpath)=(?:0x[0-9a-f]+ )?"(/[^"]*)"')
_CALLBACK = re.compile(r"=0x[0-9a-f]+ <([A-Za-z_][\w:~.]*)(?:\+\d+)?>")


@dataclass(frozen=True)
class NativeThread:
    """`frames` innermost first. `paths`: absolute paths among the arguments, the outermost first;
    `callbacks`: functions that were handed down."""

    frames: tuple[Frame, ...]
    ident: str = ""
    paths: tuple[str, ...] = ()
    callbacks: tuple[str, ...] = ()
    dropped_frames: int = 0


def parse_backtrace(raw: bytes | str) -> list[NativeThread]:
    """One NativeThread for each run of frames that starts at #0. Never raises."""
    found: list[NativeThread] = []
    current: list[re.Match[str]] = []
    ident, torn = "", 0

    def end() -> None:
        nonlocal torn
        if current and len(found) < MOST_THREADS:
            found.append(_thread(current, ident, torn))
        current.clear()
        torn = 0

    for line in text_of(raw).splitlines():
        head = _THREAD.match(line)
        if head is not None:
            end()
            ident = head["id"]
        frame = _FRAME.fullmatch(line.strip()) if len(line) <= 20_000 else None
        if frame is None:
            torn += line.lstrip().startswith("#")
            continue
        if int(frame["number"]) == 0:
            end()
        if len(current) < MOST_FRAMES:
            current.append(frame)
    end()
    return found


def _thread(matches: list[re.Match[str]], ident: str, torn: int) -> NativeThread:
    found = [
        frame_of(
            match["name"][:1024],
            match["file"] or match["library"] or "?",
            int(match["line"]) if match["line"] else None,
        )
        for match in matches
    ]
    arguments = [match["arguments"] for match in reversed(matches)]
    return NativeThread(
        frames=tuple(frame for frame in found if frame is not None),
        ident=ident,
        paths=_all(_PATH, arguments),
        callbacks=_all(_CALLBACK, arguments),
        dropped_frames=torn + found.count(None),
    )


def _all(pattern: re.Pattern[str], texts: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for text in texts for word in pattern.findall(text)))[:64]
