"""Sizes as people and tools write them: ``102.39 MB``, ``0 B``, ``2TiB``, ``50000000000``."""

from __future__ import annotations

import re
from typing import NamedTuple

_SIZE = re.compile(r"([0-9]{1,24})(?:\.([0-9]{1,12}))?(?: ?([kKMGTPE]?)(i?)B?)?", re.ASCII)
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_DIGITS_SHOWN = 1000


class Size(NamedTuple):
    """`size_bytes` as written, rounded by at most `slack_bytes` (0 for whole bytes)."""

    size_bytes: int
    slack_bytes: int


def parse_size(text: str) -> Size | None:
    """A size with or without a unit (K to E: 1000, Ki to Ei: 1024); None when it is no size.

    >>> parse_size("102.39 MB")
    Size(size_bytes=102390000, slack_bytes=5000)
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    whole, fraction, unit, binary = found.groups()
    step: int = (1024 if binary else 1000) ** _POWERS[unit or ""]
    if binary and not unit:
        return None
    digits = fraction or ""
    size_bytes = int(whole + digits) * step // 10 ** len(digits)
    slack_bytes = step // (2 * 10 ** len(digits)) if step > 1 else 0
    return Size(size_bytes, slack_bytes)


def bytes_text(number: int) -> str:
    """For a person, in powers of 1000: ``14.3 TB``, ``512 B``."""
    value, unit = float(number), "B"
    for unit in ("B", "kB", "MB", "GB", "TB", "PB", "EB"):
        if abs(value) < _DIGITS_SHOWN or unit == "EB":
            break
        value /= 1000
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
