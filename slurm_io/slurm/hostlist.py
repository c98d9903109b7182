"""Slurm's short form of node lists: ``gpu[001-003,007],login1`` <-> the names in full.

Slurm prints this form in SLURM_JOB_NODELIST and in every node field. Several brackets in one name
(``rack[1-2]n[1-4]``) multiply; leading zeros are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby, product

from slurm_io.errors import SlurmError

MAX_HOSTS = 65536
MAX_CHARS = 1 << 20

_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,255}")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})")


def expand(text: str) -> tuple[str, ...]:
    """All names, in the list's order. Raises SlurmError on malformed or absurdly long lists."""
    if len(text) > MAX_CHARS:
        raise SlurmError(f"node list of {len(text)} characters: too long to be one")
    names: list[str] = []
    for part in _split(text):
        names.extend(_expand_part(part, MAX_HOSTS - len(names)))
    return tuple(names)


def compress(names: Iterable[str]) -> str:
    """The short form: names with the same stem and width of number share a bracket, in order."""
    parts = []
    for (stem, width), group in groupby(names, key=_stem):
        numbers = [name[len(stem) :] for name in group]
        if width == 0:
            parts.extend([stem] * len(numbers))
        elif len(numbers) == 1:
            parts.append(stem + numbers[0])
        else:
            parts.append(f"{stem}[{_ranges([int(number) for number in numbers], width)}]")
    return ",".join(parts)


def _split(text: str) -> list[str]:
    """Split at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if depth not in (0, 1):
            raise SlurmError(f"node list with unbalanced brackets: {text[:80]!r}")
        if character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    if depth:
        raise SlurmError(f"node list with unbalanced brackets: {text[:80]!r}")
    return [part for part in [*parts, text[start:]] if part]


def _expand_part(part: str, room: int) -> list[str]:
    pieces = re.split(r"\[([^\]]*)\]", part)
    choices: list[list[str]] = []
    count = 1
    for index, piece in enumerate(pieces):
        # Each bracket gets what those before it left: 300 full ones would take 1.4 GB first.
        choices.append(_numbers(piece, room // count) if index % 2 else [piece])
        count *= len(choices[-1])
    if count > room:
        raise SlurmError(f"node list of more than {MAX_HOSTS} nodes: {part[:80]!r}")
    names = ["".join(choice) for choice in product(*choices)]
    for name in names:
        if not _NAME.fullmatch(name):
            raise SlurmError(f"node list with a name that cannot be one: {name[:80]!r}")
    return names


def _numbers(text: str, room: int) -> list[str]:
    numbers: list[str] = []
    for item in text.split(","):
        found = _RANGE.fullmatch(item)
        if found is None:
            raise SlurmError(f"node list with a malformed range: {item[:80]!r}")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first or last - first >= room - len(numbers):
            raise SlurmError(f"node list with a range backwards or too long: {item[:80]!r}")
        numbers.extend(str(number).zfill(len(found[1])) for number in range(first, last + 1))
    return numbers


def _stem(name: str) -> tuple[str, int]:
    """Stem and, where the name ends in a number, the number's width as a group key."""
    found = _NUMBERED.fullmatch(name)
    if found is None:
        return name, 0
    digits = found[2]
    return found[1], len(digits)


def _ranges(numbers: list[int], width: int) -> str:
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(
        str(first).zfill(width) if first == last else f"{first:0{width}d}-{last:0{width}d}"
        for first, last in ranges
    )


def is_name(text: str) -> bool:
    """Whether this can be one node's name: no list, and not the word that means all nodes."""
    return bool(_NAME.fullmatch(text)) and text.isascii() and text.upper() != "ALL"


def natural_key(name: str) -> tuple[tuple[str, int, str], ...]:
    """Sorts n9 before n10."""
    pieces = re.findall(r"([^0-9]*)([0-9]{1,18})|([^0-9]+)", name)
    return tuple((stem or rest, int(digits or -1), digits) for stem, digits, rest in pieces)
