"""What the parsers share: bytes to text, and one printed frame to a Frame."""

from __future__ import annotations

import re

from slurm_io.stacktext.model import LONGEST_NAME, Frame

MOST_BYTES = 16 * 1024 * 1024
_LARGEST_LINE = 10_000_000
_PACKAGES = ("/site-packages/", "/dist-packages/", "/lib/python3.")
# Identifiers and <module>, <listcomp>, <locals>, <generic parameters of f>, joined by dots.
_PYTHON_NAME = re.compile(r"(?:[^\W\d]\w*|<[^<>]+>)(?:\.(?:[^\W\d]\w*|<[^<>]+>))*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufffd]")
_NAME_THEN_FILE = re.compile(r"(?P<name>.+?) \((?P<file>[^()]*(?:\([^()]*\)[^()]*)*)\)")
_FILE_THEN_NAME = re.compile(r"(?P<file>.+?):(?P<line>\d{1,9}) - (?P<name>.+)", re.DOTALL)
_LINE_AT_END = re.compile(r"(.*):(\d{1,9})")


def text_of(raw: bytes | str) -> str:
    """At most MOST_BYTES of `raw` as text; bytes that are no UTF-8 become U+FFFD."""
    if isinstance(raw, str):
        return raw[:MOST_BYTES]
    return raw[:MOST_BYTES].decode("utf-8", "replace")


def frame_of(name: str, file: str, line: int | None) -> Frame | None:
    """A Frame, or None when it is torn: a name no function bears, control characters (a profiler
    that reads a running process without stopping it now and then reads rubbish)."""
    if not name or len(name) > LONGEST_NAME or len(file) > LONGEST_NAME:
        return None
    if _CONTROL.search(name) or _CONTROL.search(file):
        return None
    if line is not None and not 0 <= line < _LARGEST_LINE:
        return None
    frame = Frame(name, file, line)
    return frame if frame.is_native or _PYTHON_NAME.fullmatch(name) else None


def shown(frame: Frame) -> str:
    """``name (file:line)`` with the path from the package on."""
    path = frame.file
    for mark in _PACKAGES:
        _, found, rest = frame.file.rpartition(mark)
        if found:
            path = rest.partition("/")[2] if mark == _PACKAGES[2] else rest
            break
    return str(frame._replace(file=path))


def parse_frame(text: str) -> Frame | None:
    """``name (file:line)``, ``name (libc.so.6)`` or ``file:line - name``; None when torn."""
    text = text.strip(" \t\r")
    if len(text) > 3 * LONGEST_NAME:
        return None
    found = _NAME_THEN_FILE.fullmatch(text)
    if found is not None:
        name, place = found["name"], found["file"]
        numbered = _LINE_AT_END.fullmatch(place)
        if numbered is not None:
            return frame_of(name, numbered[1], int(numbered[2]))
        return frame_of(name, place, None)
    found = _FILE_THEN_NAME.fullmatch(text)
    if found is not None:
        return frame_of(found["name"], found["file"], int(found["line"]))
    return None
