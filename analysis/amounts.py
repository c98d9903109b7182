"""Sizes and lengths as the report prints them: decimal units, as storage is sold and measured."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size(value: float) -> str:
    """Bytes, three figures at most: ``1.5 GB``."""
    place = 0
    while value >= 999.5 and place < len(_UNITS) - 1:
        value, place = value / 1000, place + 1
    return f"{value:.3g} {_UNITS[place]}"


def length(seconds: float) -> str:
    """Seconds up to 100, then minutes."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
