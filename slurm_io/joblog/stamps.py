"""Time stamps inside log lines, as seconds that can be subtracted.

A stamp rarely names its time zone: `seconds` then counts from 1970 in whatever zone the printer
was. Without a year (``12/21 01:39:51``) it counts from a fixed one: good for differences only.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_YEAR_UNKNOWN = 2000
_SEARCHED_CHARACTERS = 256
_TIME = r"([0-2][0-9]):([0-5][0-9]):([0-6][0-9])(?:[.,]([0-9]{1,9}))?"
_ZONE = r"(Z|[+-][0-9]{2}:?[0-9]{2})?"
_DATED = re.compile(
    rf"(?<![0-9])([12][0-9]{{3}})[-/]([01][0-9])[-/]([0-3][0-9])[T ]{_TIME}{_ZONE}(?![0-9])",
    re.ASCII,
)
_AMERICAN = re.compile(
    rf"(?<![0-9/])([01][0-9])/([0-3][0-9])(?:/([12][0-9]{{3}}))? {_TIME}(?![0-9])", re.ASCII
)


class Stamp(NamedTuple):
    """`resolution_s`: the unit of the last printed digit. `zone`: "utc" when the line says so."""

    seconds: float
    resolution_s: float
    zone: str
    has_year: bool


def find_stamp(text: str) -> Stamp | None:
    """The first time stamp near the beginning of a line; None when there is none."""
    text = text[:_SEARCHED_CHARACTERS]
    found = _DATED.search(text)
    if found is not None:
        year, month, day, *time, zone = found.groups()
        return _stamp(year, month, day, time, zone)
    found = _AMERICAN.search(text)
    if found is not None:
        month, day, year, *time = found.groups()
        return _stamp(year, month, day, time, None)
    return None


def _stamp(
    year: str | None, month: str, day: str, time: list[str | None], zone: str | None
) -> Stamp | None:
    days = _days_since_1970(int(year or _YEAR_UNKNOWN), int(month), int(day))
    if days is None:
        return None
    hour, minute, second, part = time
    seconds = days * 86400.0 + int(hour or 0) * 3600 + int(minute or 0) * 60 + int(second or 0)
    digits = len(part or "")
    seconds += int(part or 0) / 10**digits
    if zone is not None:
        seconds -= _offset_s(zone)
    return Stamp(seconds, 10.0**-digits, "local" if zone is None else "utc", year is not None)


def _offset_s(zone: str) -> int:
    if zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    return (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)


def _days_since_1970(year: int, month: int, day: int) -> int | None:
    """Gregorian calendar; None for a month or day that cannot be. (datetime costs 1 MiB.)"""
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    years = year - (month <= 2)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return years * 365 + years // 4 - years // 100 + years // 400 + day_of_year - 719468
