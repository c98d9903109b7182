"""Python tracebacks, plain and in rich's boxes: most recent call LAST, so they are turned round.

A box breaks long lines, between words or, where a word is longer than the box, inside it: a line
that fills the box to its edge goes on without a blank. Code lines, markers (``^^^^``), tables of
local variables and whatever a job prints in between are passed over.
"""

from __future__ import annotations

import re

from slurm_io.records import dataclass
from slurm_io.stacktext.model import MOST_FRAMES, Frame, Stack
from slurm_io.stacktext.texts import frame_of, text_of

_MOST_TRACEBACKS = 1000
_PREFIX = re.compile(r"(?:\[[^\]\s]{1,40}\]:? |\d{1,6}: )")
_HEAD = re.compile(r"\s*(?:[|+]\s*)*(?:Exception Group )?Traceback \(most recent call last\):\s*")
_FRAME = re.compile(
    r'\s*(?:\| *)*File "(?P<file>[^"]*)", line (?P<line>\d{1,9}), in (?P<name>.+?)\s*'
)
_RAISED = re.compile(r"\s*(?:\| *)*(?P<name>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?")
_BOX_TOP = re.compile(r"\s*[╭┌+][─-]+ ?Traceback \(most recent call last\) ?[─-]+[╮┐+]\s*")
_BOX_END = re.compile(r"\s*[╰└+][─-]+[╯┘+]\s*")
_BOX_LINE = re.compile(r"\s*[│|](?P<text>.*)[│|]\s*")
_BOX_FRAME = re.compile(r"(?P<file>\S.*?):(?P<line>\d{1,9}) in (?P<name>\S.*)")
_MOST_PIECES = 12


@dataclass(frozen=True)
class Traceback:
    """`frames` innermost first. `exception` and `message` of the line behind it, "" when cut."""

    frames: Stack
    exception: str = ""
    message: str = ""
    boxed: bool = False
    dropped_frames: int = 0


def parse_tracebacks(raw: bytes | str) -> list[Traceback]:
    """All tracebacks of a job's output, in order; chained ones are several. Never raises."""
    lines = [_without_prefix(line) for line in text_of(raw).splitlines()]
    found: list[Traceback] = []
    at = 0
    while at < len(lines) and len(found) < _MOST_TRACEBACKS:
        if _BOX_TOP.fullmatch(lines[at]):
            one, at = _boxed(lines, at + 1)
            found.append(one)
        elif _HEAD.fullmatch(lines[at]):
            one, at = _plain(lines, at + 1)
            found.append(one)
        else:
            at += 1
    return found


def _plain(lines: list[str], at: int) -> tuple[Traceback, int]:
    frames: list[Frame] = []
    dropped, raised = 0, None
    while at < len(lines):
        line = lines[at]
        if _HEAD.fullmatch(line) or _BOX_TOP.fullmatch(line):
            break
        found = _FRAME.fullmatch(line)
        if found is not None:
            frame = frame_of(found["name"], found["file"], int(found["line"]))
            dropped += frame is None
            frames += [frame] if frame is not None else []
        elif frames and line.strip(" |") and not line.lstrip(" |+").startswith("File "):
            raised = _raised_at(line)
            if raised is not None:
                at += 1
                break
        elif line.lstrip(" |").startswith("File "):
            dropped += 1
        at += 1
    return _traceback(frames, raised, dropped, boxed=False), at


def _raised_at(line: str) -> re.Match[str] | None:
    """The line of the exception stands as far left as the head; code stands further right."""
    bare = line.replace("|", " ")
    indent = len(bare) - len(bare.lstrip())
    return _RAISED.fullmatch(line) if indent == 0 or "|" in line and indent <= 4 else None


def _boxed(lines: list[str], at: int) -> tuple[Traceback, int]:
    entries: list[str] = []
    dropped, pending, pieces, fills = 0, "", 0, False
    while at < len(lines) and not _BOX_END.fullmatch(lines[at]):
        inside = _BOX_LINE.fullmatch(lines[at])
        if inside is None:
            break
        at += 1
        text = inside["text"][1:]
        piece = text.rstrip()
        if pending:
            pending += piece.lstrip() if fills else " " + piece.lstrip()
            pieces += 1
        elif _begins_entry(piece):
            pending, pieces = piece, 1
        else:
            continue
        fills = len(text) - len(piece) <= 1
        if _BOX_FRAME.fullmatch(pending):
            entries.append(pending)
            pending = ""
        elif pieces >= _MOST_PIECES or not piece:
            pending = ""
            dropped += 1
    dropped += bool(pending)
    if at < len(lines) and _BOX_END.fullmatch(lines[at]):
        at += 1
    frames = []
    for entry in entries:
        frame = _box_frame(entry)
        dropped += frame is None
        frames += [frame] if frame is not None else []
    raised = next((m for line in lines[at : at + 1] if (m := _RAISED.fullmatch(line))), None)
    return _traceback(frames, raised, dropped, boxed=True), at + (raised is not None)


def _begins_entry(piece: str) -> bool:
    """A path at the box's left edge; code lines and local variables stand further right."""
    if piece.startswith(("/", "<", "~")):
        return True
    return piece[:1].isalnum() and _BOX_FRAME.fullmatch(piece) is not None


def _box_frame(entry: str) -> Frame | None:
    found = _BOX_FRAME.fullmatch(entry)
    if found is None:
        return None
    return frame_of(found["name"].strip(), found["file"], int(found["line"]))


def _traceback(
    frames: list[Frame], raised: re.Match[str] | None, dropped: int, boxed: bool
) -> Traceback:
    return Traceback(
        frames=tuple(reversed(frames))[:MOST_FRAMES],
        exception=raised["name"][:200] if raised is not None else "",
        message=(raised["text"] or "")[:2000].strip() if raised is not None else "",
        boxed=boxed,
        dropped_frames=dropped,
    )


def _without_prefix(line: str) -> str:
    found = _PREFIX.match(line)
    return line[found.end() :] if found is not None else line
