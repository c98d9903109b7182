"""Checks of single values of a manifest: each takes what JSON held and gives back what is used.

A check raises ManifestError that says what the value must be; :func:`checked` adds the key. Values
may come from anybody: what is shown of them is short and ASCII.

Standard library only: the prolog loads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from slurm_io.errors import ManifestError

MAX_BYTES = (1 << 63) - 1
Check = Callable[[Any], Any]


def checked(row: dict[str, Any], known: dict[str, Check], needed: Iterable[str]) -> dict[str, Any]:
    """A row's values as the checks of `known` give them back.

    Raises ManifestError naming the key that is unknown, wrong or missing.
    """
    values = {}
    for key, value in row.items():
        check = known.get(key)
        if check is None:
            raise ManifestError(f"unknown key {key!a:.60}: did a newer slurm_io write it?")
        try:
            values[key] = check(value)
        except ManifestError as error:
            raise ManifestError(f"{key}: {error}") from None
    for key in needed:
        if key not in values:
            raise ManifestError(f"key {key!r} is missing")
    return values


def any_text(value: Any) -> str:
    """Text of any length, as it is."""
    if not isinstance(value, str):
        raise ManifestError(f"must be text, not {_short(value)}")
    return value


def text_up_to(limit: int) -> Check:
    """Text of at most `limit` characters, without control characters, that UTF-8 can hold."""

    def check(value: Any) -> str:
        text = any_text(value)
        if len(text) > limit:
            raise ManifestError(f"has {len(text)} characters: at most {limit}")
        if text.isascii() and text.isprintable():
            return text
        if any(letter < " " or letter == "\x7f" for letter in text):
            raise ManifestError(f"{text!a:.80} holds a control character")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ManifestError(f"{text!a:.80} cannot be written as UTF-8") from None
        return text

    return check


def whole_number(low: int, high: int) -> Check:
    """A whole number, both bounds inclusive; true and false are none."""

    def check(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise ManifestError(f"must be a whole number from {low} to {high}, not {_short(value)}")
        return value

    return check


def list_of(check: Check, limit: int) -> Check:
    """At most `limit` items that each pass `check`, as a tuple."""

    def check_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > limit:
            raise ManifestError(f"must be a list of at most {limit}")
        return tuple(check(item) for item in value)

    return check_all


def or_null(check: Check) -> Check:
    """None, or what passes `check`."""
    return lambda value: None if value is None else check(value)


def matching(pattern: re.Pattern[str], form: str) -> Check:
    """Text that a pattern matches as a whole; `form` says to people what it looks like."""

    def check(value: Any) -> str:
        if not pattern.fullmatch(any_text(value)):
            raise ManifestError(f"{value!a:.80} is not {form}")
        return str(value)

    return check


def one_of(*words: str) -> Check:
    """One of these words."""

    def check(value: Any) -> str:
        if value not in words or not isinstance(value, str):
            raise ManifestError(f"must be one of {', '.join(words)}, not {_short(value)}")
        return value

    return check


def _short(value: Any) -> str:
    if isinstance(value, int) and abs(value) > MAX_BYTES:
        return "a number beyond 63 bits"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return f"{value!a:.60}"
