"""Lines, and the numbers and names in them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

Line = tuple[str, str]


def wrapped(text: str, width: int, indent: str, style: str = "") -> list[Line]:
    """The text as lines of at most `width`, those after the first indented."""
    wrapper = textwrap.TextWrapper(
        width=width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [(line, style) for line in wrapper.wrap(printable(text))]


def printable(text: str) -> str:
    """Control and format characters as ``\\x1b``: a file name must not drive the terminal."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def some(things: Sequence[object]) -> str:
    """The first eight, and how many more there are."""
    shown = ", ".join(str(thing) for thing in things[:8])
    return shown if len(things) <= 8 else f"{shown} and {len(things) - 8} more"


def percent(share: float | None, digits: int = 1) -> str:
    """A share of 0 to 1; "?" where it is not known."""
    return "?" if share is None else f"{share * 100:.{digits}f}%"


def duration(seconds: float | None) -> str:
    """In the unit a person would choose; "?" where it is not known."""
    if seconds is None:
        return "?"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def or_unknown(value: object) -> str:
    """ "?" where it is not known."""
    return "?" if value is None else str(value)
