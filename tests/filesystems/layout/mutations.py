"""Damages bytes and text the way disks, versions and attackers do."""

from __future__ import annotations

import random
import struct

NUMBERS = (0, 1, 2, 23, 24, 32, 48, 2000, 2001, 0x7FFF, 0xFFE0, 0xFFFE, 0xFFFF, 0x10000, 0x7FFFFFFF,
           0x80000000, 0xFFFFFFFF, 0x0BD10BD0, 0x0BD30BD0, 0x0BD50BD0, 0x0BD60BD0, 0x0BD70BD0,
           0x0BD80BD0, 0x0CD30CD0)  # fmt: skip


def mutate(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """One to four damages in a row."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 4))):
        data = chance.choice(_KINDS)(data, others, chance)
    return data


def mutate_text(text: str, others: list[str], chance: random.Random) -> str:
    """Lines cut, dropped, doubled, swapped in from elsewhere, and numbers changed."""
    lines = text.split("\n")
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(lines))
        kind = chance.randrange(6)
        if kind == 0:
            lines = lines[:at] + [lines[at][: chance.randrange(len(lines[at]) + 1)]]
        elif kind == 1 and len(lines) > 1:
            del lines[at]
        elif kind == 2:
            lines.insert(at, lines[chance.randrange(len(lines))])
        elif kind == 3:
            other = chance.choice(others).split("\n")
            lines[at:at] = other[chance.randrange(len(other)) :][: chance.randrange(1, 9)]
        elif kind == 4:
            words = lines[at].split(" ")
            words[chance.randrange(len(words))] = chance.choice(_WORDS)
            lines[at] = " ".join(words)
        else:
            place = chance.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:place] + chr(chance.randrange(0x3000)) + lines[at][place:]
    return "\n".join(lines)


def _flip_bit(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data) * 8)
    changed = bytearray(data)
    changed[at // 8] ^= 1 << at % 8
    return bytes(changed)


def _set_number(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    width, form = chance.choice(((2, "H"), (4, "I"), (8, "Q")))
    if len(data) < width:
        return data
    at = chance.randrange(0, len(data) - width + 1)
    at -= at % 2
    value = chance.choice((chance.choice(NUMBERS), chance.getrandbits(8 * width), len(data)))
    changed = bytearray(data)
    value &= (1 << 8 * width) - 1
    struct.pack_into(chance.choice("<>") + form, changed, at, value)
    return bytes(changed)


def _add_to_number(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    if len(data) < 4:
        return data
    at = chance.randrange(0, len(data) - 3)
    changed = bytearray(data)
    (value,) = struct.unpack_from("<I", changed, at)
    step = chance.choice((1, -1, 8, -8, 24, -24, 48))
    struct.pack_into("<I", changed, at, value + step & 0xFFFFFFFF)
    return bytes(changed)


def _cut(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _lengthen(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    count = chance.choice((1, 4, 8, 24, 48))
    return data + chance.choice((bytes(count), chance.randbytes(count), data[-count:]))


def _remove(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + data[at + chance.choice((1, 4, 8, 24)) :]


def _splice(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    other = chance.choice(others)
    at, where = chance.randrange(len(data) + 1), chance.randrange(len(other) + 1)
    return data[: at - at % 8] + other[where - where % 8 :]


def _copy_over(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    other = chance.choice(others)
    count = chance.choice((4, 8, 16, 24, 48))
    at, where = chance.randrange(len(data) + 1), chance.randrange(len(other) + 1)
    at -= at % 4
    where -= where % 4
    return data[:at] + other[where : where + count] + data[at + count :]


def _copy_within(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """One field's value, or an offset and its size, in another field of the same kind."""
    if len(data) < 48:
        return data
    count, step = chance.choice(((4, 4), (8, 8), (8, 48), (48, 48), (24, 24)))
    first = chance.choice((0, 32, 48, 56, chance.randrange(48)))
    places = range(first, len(data) - count + 1, step)
    if len(places) < 2:
        return data
    there, here = chance.choice(places), chance.choice(places)
    return data[:here] + data[there : there + count] + data[here + count :]


_KINDS = (_flip_bit, _flip_bit, _set_number, _set_number, _add_to_number, _cut, _lengthen, _remove,
          _splice, _copy_over, _copy_within, _copy_within)  # fmt: skip
_WORDS = ("0", "-1", "EOF", "N/A", "", "9" * 30, "0x", "mdt", "raid0,parity", "init", "1M",
          "lmm_pattern:", "lcme_id:", "stripe_count:", "-", "{", "\0", "released", "2")  # fmt: skip
