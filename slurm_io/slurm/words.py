"""Slurm's words for values: empties, times, durations, numbers; the same in all versions.

Sources: scontrol(1), squeue(1), and the three shapes of a number in JSON: bare (22.05),
``{"set", "infinite", "number"}`` (from 23.02 on), null. What is no value is None, never 0.
"""

from __future__ import annotations

import re
from typing import Any

from slurm_io.errors import SlurmError

EMPTY = frozenset({"", "(null)", "None", "NONE", "N/A", "n/a", "n/s", "Unknown"})
NO_LIMIT = frozenset({"UNLIMITED", "INFINITE", "infinite", "unlimited"})
_NO_TIME = EMPTY | NO_LIMIT | {"UNKNOWN", "INVALID", "Never", "NEVER", "NOT_SET", "GLOBAL"}
_EPOCH = re.compile(r"[0-9]{1,11}", re.ASCII)
_ISO = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?", re.ASCII
)
_DURATION = re.compile(r"(?:([0-9]{1,6})-)?(?:([0-9]{1,4}):)?([0-9]{1,4}):([0-9]{2})", re.ASCII)
# NO_VAL and INFINITE of 16, 32 and 64 bits: "not set" of those who print the raw number.
_UNSET = frozenset(each for bits in (16, 32, 64) for each in (2**bits - 1, 2**bits - 2))


def text_of(value: str) -> str:
    """A free text; "" where Slurm has a word for none."""
    return "" if value in EMPTY - {"Unknown"} else value


def name_of(value: str) -> str | None:
    """A name; None where Slurm has a word for none."""
    return None if value in EMPTY else value


def names_of(value: str) -> tuple[str, ...]:
    """A list with commas; () where Slurm has a word for none."""
    return () if value in EMPTY else tuple(each for each in value.split(",") if each)


def epoch_of(value: str) -> int | None:
    """Seconds since 1970 of a time as ``SLURM_TIME_FORMAT=%s`` or the default prints it.

    None for every word that means no time, for 0, and for what does not say which day it is:
    :func:`why_no_epoch` tells those apart. ``2026-07-22T17:56:37`` is this machine's local time.
    """
    if _EPOCH.fullmatch(value):
        return int(value) or None
    found = _ISO.fullmatch(value)
    return _local_epoch(found) if found else None


def why_no_epoch(value: str) -> str | None:
    """Why a time could not be read; None when it could, or when it says that there is none."""
    if value in _NO_TIME or _EPOCH.fullmatch(value) or epoch_of(value) is not None:
        return None
    return (
        f"{value[:32]!a} does not say which day: SLURM_TIME_FORMAT was set when it was printed; "
        "ask again in a clean environment"
    )


def duration_of(value: str) -> int | None:
    """Seconds of ``1-02:03:04``, ``02:03:04``, ``03:04``; None for a word that means no limit.

    Raises SlurmError for anything else: a bare number would be minutes or seconds.
    """
    if value in _NO_TIME:
        return None
    found = _DURATION.fullmatch(value)
    if found is None:
        raise SlurmError(f"{value[:32]!a} is no duration of Slurm's (1-02:03:04)")
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def whole_number(value: str, what: str) -> int | None:
    """A number of at most 18 digits; None where there is none. Raises SlurmError."""
    if value in _NO_TIME:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", value, re.ASCII):
        raise SlurmError(f"{what}={value[:32]!a} is no number")
    return int(value)


def number_in(value: Any, what: str) -> int | None:
    """A number of JSON in any of its shapes; None when unset or infinite. Raises SlurmError."""
    if isinstance(value, dict):
        if not value or value.get("set") is False or value.get("infinite") is True:
            return None
        value = value.get("number")
    if value is None or value == "":
        return None
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value, re.ASCII):
        value = int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SlurmError(f"{what} is {str(value)[:32]!a}, not a number")
    return None if value in _UNSET else value


def is_infinite(value: Any) -> bool:
    """Whether a number of JSON says "no limit"."""
    return isinstance(value, dict) and value.get("infinite") is True


def epoch_in(value: Any, what: str) -> int | None:
    """A time of JSON, where 0 is none. Raises SlurmError."""
    return number_in(value, what) or None


def text_in(value: Any, what: str) -> str:
    """A text of JSON; null and Slurm's words for none are "". Raises SlurmError."""
    if value is None or value == {}:
        return ""
    if not isinstance(value, str):
        raise SlurmError(f"{what} is {str(value)[:32]!a}, not a text")
    return text_of(value)


def names_in(value: Any, what: str) -> tuple[str, ...]:
    """A list of JSON, or a text with commas. Raises SlurmError."""
    if isinstance(value, list):
        if all(isinstance(each, str) for each in value):
            return tuple(each for each in value if each)
        raise SlurmError(f"{what} is no list of names")
    return names_of(text_in(value, what))


def _local_epoch(found: re.Match[str]) -> int | None:
    import time  # not needed for %s, which is what we ask for

    year, month, day, hour, minute, second = (int(each or 0) for each in found.groups())
    if not (1970 <= year <= 2200 and 1 <= month <= 12 and 1 <= day <= 31):
        return None
    if hour > 23 or minute > 59 or second > 60:
        return None
    try:
        moment = time.mktime((year, month, day, hour, minute, second, 0, 0, -1))
    except (OverflowError, ValueError):
        return None
    # 31 February would become 3 March.
    return int(moment) if moment > 0 and time.localtime(moment).tm_mday == day else None
