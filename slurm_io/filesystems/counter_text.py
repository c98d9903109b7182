"""Numbers in the text of a file system's client: only those a counter can be."""

from __future__ import annotations

LARGEST = 1 << 63
_MOST_DIGITS = 20


def counter(text: str) -> int | None:
    """A plain decimal number below 2^63; None for anything else, a negative printed as unsigned
    (18446743919241604546) included."""
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        return None
    number = int(text)
    return number if number < LARGEST else None
