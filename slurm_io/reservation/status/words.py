"""Numbers as people read them. None is "?"."""

from __future__ import annotations

_LISTED = 8
_SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def size(count: float | None) -> str:
    """Bytes in decimal units."""
    if count is None:
        return "?"
    for unit, word in _SIZES:
        if count >= unit:
            return f"{count / unit:.3g} {word}"
    return f"{count:.0f} B"


def age(seconds: float | None) -> str:
    """``40 s``, ``12 min``, ``3.5 h``, ``9 days``."""
    if seconds is None:
        return "?"
    for unit_s, limit_s, word in ((1, 100, "s"), (60, 6000, "min"), (3600, 172800, "h")):
        if seconds < limit_s:
            digits = 1 if word == "h" else 0
            return f"{seconds / unit_s:.{digits}f}".removesuffix(".0") + f" {word}"
    return f"{seconds / 86400:.0f} days"


def between(low_s: float | None, high_s: float | None) -> str:
    """A range of times, in one unit where one will do."""
    if low_s is None or high_s is None:
        return "?"
    low, high = age(low_s), age(high_s)
    if low == high:
        return low
    if low.rpartition(" ")[2] == high.rpartition(" ")[2]:
        low = low.rpartition(" ")[0]
    return f"{low} to {high}"


def short_id(content_id: str | None) -> str:
    """A content id's beginning, enough to tell versions apart by eye."""
    if content_id is None:
        return "?"
    return content_id if len(content_id) <= 14 else f"{content_id[:13]}…"


def yes_no(value: bool | None) -> str:
    """yes, no or ?"""
    return {True: "yes", False: "no", None: "?"}[value]


def some(things: tuple[str, ...] | list[str], joint: str) -> str:
    """The first few, and how many more."""
    shown = joint.join(things[:_LISTED])
    return shown if len(things) <= _LISTED else f"{shown} and {len(things) - _LISTED} more"


def printable(text: str) -> str:
    """One line without control characters: a name must not drive the terminal that shows it."""
    return "".join(each if each.isprintable() else "?" for each in text)
