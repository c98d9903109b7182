"""Damages counter files the way versions, races and faults do: for fuzz tests of client parsers."""

from __future__ import annotations

import random
import re

WORDS = (b"0", b"-1", b"18446744073709551615", b"9223372036854775808", b"9223372036854775807",
         b"9" * 30, b"9" * 5000, b"", b"x", b"1.5", b"\xff\xfe", b":", b"[usecs]", b"samples",
         b"1_0", b"0x10", b"nan", b"{", b"}", b"- ", b"\0", b"\n", b"\t")  # fmt: skip
_NUMBER = re.compile(rb"\d+")


def mutate(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """One to four damages in a row."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        data = chance.choice(_KINDS)(data, others, chance)
    return data


def _number(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    places = list(_NUMBER.finditer(data))
    if not places:
        return data
    place = chance.choice(places)
    value = int(place[0]) if len(place[0]) < 25 else 0
    new = chance.choice((
        chance.choice(WORDS), b"%d" % (value + chance.choice((-1, 1, 1000))),
        b"%d" % chance.getrandbits(chance.choice((8, 32, 63, 64, 65))),
    ))  # fmt: skip
    return data[: place.start()] + new + data[place.end() :]


def _word(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(WORDS) + data[at + chance.choice((0, 1, 5)) :]


def _cut(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return chance.choice((data[:at], data[at:]))


def _lines(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    kind = chance.randrange(4)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, chance.choice(lines))
    elif kind == 2:
        other = chance.choice(others).split(b"\n")
        start = chance.randrange(len(other))
        lines[at:at] = other[start : start + chance.randrange(1, 9)]
    else:
        swap = chance.randrange(len(lines))
        lines[at], lines[swap] = lines[swap], lines[at]
    return b"\n".join(lines)


def _byte(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]


_KINDS = (_number, _number, _number, _word, _cut, _lines, _lines, _byte)
