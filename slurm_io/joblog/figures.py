"""Numbers, durations and rates as training programs print them.

None of these raises; None means: no number there. nan and infinity are no numbers either, and
:class:`Fields` remembers which fields held them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_LARGEST = 1 << 62
_MOST_DIGITS = 64
_NOT_FINITE = re.compile(r"[-+]?(?:nan|inf(?:inity)?)(?:\.0*)?", re.IGNORECASE)
_HUMAN = {"K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
_CLOCK = re.compile(
    r"(?:([0-9]{1,6})(?:-| days?, | ?d ?))?([0-9]{1,7}):([0-9]{2})(?::([0-9]{2}(?:\.[0-9]+)?))?",
    re.ASCII,
)
_RATE = re.compile(r"([0-9.]{1,20}|\?) ?([A-Za-z]{1,16})/([A-Za-z]{1,16})", re.ASCII)
_UNIT_S = {"s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "min": 60.0, "h": 3600.0}


def number(text: str) -> float | None:
    """``1,234.5``, ``9e+3``, ``4.298E-05``, ``.5``; None for anything else, nan included."""
    if len(text) > _MOST_DIGITS or not text.isascii():
        return None
    try:
        value = float(text.replace(",", "").strip(" '\""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def is_not_finite(text: str) -> bool:
    """``nan``, ``NaN``, ``inf``, ``-inf``, and ``nan.0`` of a bar that appends ``.0``."""
    text = text.strip().strip("'\"")
    return len(text) < 16 and _NOT_FINITE.fullmatch(text) is not None


def whole(text: str | None) -> int | None:
    """A count that a 64-bit column can hold: ``75,000`` or ``794.0``; never negative."""
    value = number(text) if text is not None else None
    if value is None or not 0 <= value < _LARGEST or value != int(value):
        return None
    return int(value)


def human(text: str) -> tuple[float, float, float] | None:
    """(low, value, high) of a number rounded to three digits, with K, M, B, G or T behind it.

    Trailing zeros are not printed: ``45`` stands for 44.95 to 45.05, ``1.2K`` for 1195 to 1205.
    """
    text = text.strip()
    scale = _HUMAN.get(text[-1:], 1.0)
    value = number(text[:-1] if scale != 1.0 else text)
    if value is None or value < 0:
        return None
    half = 10 ** (math.floor(math.log10(value)) - 2) / 2 if value > 0 else 0.0
    low, middle, high = (round(each * scale, 12) for each in (value - half, value, value + half))
    return low, middle, high


def rounding(text: str) -> float:
    """Half a unit of the last printed place: 0.0005 for ``1.762``. 0 for what is no number."""
    text = text.strip().strip("'\"").replace(",", "")
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    try:
        return 0.5 * 10.0 ** (int(exponent or 0) - decimals)
    except (ValueError, OverflowError):
        return 0.0


def seconds(text: str) -> float | None:
    """A duration as a clock: ``05:12``, ``878:01:48``, ``1-07:27:33``, ``1 day, 2:03:04``."""
    found = _CLOCK.fullmatch(text.strip())
    if found is None:
        return None
    days, first, second, third = found.groups()
    upper, lower = (int(first) * 60 + int(second), third) if third else (int(first), second)
    return int(days or 0) * 86400.0 + upper * 60.0 + float(lower)


def in_seconds(text: str, unit: str) -> float | None:
    """A number with a unit of time; None when either is not known or the time is negative."""
    value, factor = number(text), _UNIT_S.get(unit)
    return value * factor if value is not None and factor is not None and value >= 0 else None


def step_time(text: str) -> float | None:
    """Seconds a step of a rate: ``44.14it/s``, ``41.36s/it``, ``2.5 s/batch``; None for ``?``."""
    found = _RATE.search(text)
    if found is None:
        return None
    value, above, below = number(found[1]), found[2], found[3]
    if value is None or value <= 0:
        return None
    if below in ("s", "sec"):
        return 1.0 / value
    return value if above in ("s", "sec") else None


def only_whole(low: float, high: float) -> int | None:
    """The whole number between two bounds when there is exactly one, above 0."""
    if not (math.isfinite(low) and math.isfinite(high)) or high >= _LARGEST:
        return None
    first = math.ceil(low)
    return first if first == math.floor(high) and first > 0 else None


def ratio(above: float | None, below: float | None) -> float | None:
    """above / below; None when either is unknown or the result would be none."""
    if above is None or below is None or below <= 0:
        return None
    value = above / below
    return value if math.isfinite(value) else None


def positive(value: float | None) -> float | None:
    """A time or a rate; None for one that cannot be: 0 stands for "too small to print"."""
    return value if value is not None and math.isfinite(value) and value > 0 else None


_MOST_CELLS = 64  # of a line that never ends


def cells_of(text: str) -> list[str]:
    """``a: 1 | b: 2`` cut at its bars."""
    return text.split("|")[:_MOST_CELLS]


class Fields:
    """Named texts of a line as numbers. `nan`: names of those read that held nan or infinity."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self.nan: list[str] = []

    @classmethod
    def of_cells(cls, text: str) -> Fields:
        """``name: value | name: value``; a cell without a colon is no field."""
        pairs = (cell.partition(":") for cell in cells_of(text))
        return cls({name.strip(): value.strip() for name, sign, value in pairs if sign})

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def text(self, name: str) -> str:
        """As printed; empty when there is none."""
        return self._texts.get(name, "")

    def number(self, *names: str) -> float | None:
        """The first of `names` that is there, as a number."""
        for name in names:
            text = self._texts.get(name)
            if text is None:
                continue
            if is_not_finite(text):
                self.nan += [] if name in self.nan else [name]
                return None
            return number(text)
        return None

    def whole(self, *names: str) -> int | None:
        """As :meth:`number`, for counts."""
        for name in names:
            text = self._texts.get(name)
            if text is not None:
                return whole(text)
        return None
