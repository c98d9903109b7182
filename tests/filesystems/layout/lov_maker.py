"""Makes the bytes of layouts from plain values, independently of the reader under test."""

from __future__ import annotations

import struct
from dataclasses import dataclass

RAID0, MDT, OVERSTRIPED, HOLE, RELEASED = 0x1, 0x100, 0x200, 0x40000000, 0x80000000
INIT, STALE, EXTENSION, PARITY = 0x10, 0x01, 0x40, 0x80
END = 2**64 - 1


@dataclass(frozen=True)
class Part:
    """One component to be made. `osts` None = a slot without object (a hole)."""

    osts: tuple[int | None, ...] = ()
    count: int = 0
    size: int = 1 << 20
    pattern: int = RAID0
    pool: str | None = None
    flags: int = INIT
    start: int = 0
    end: int = END
    identity: int = 1
    last: int = 0


def plain(part: Part, order: str = "<", seed: int = 1) -> bytes:
    """A v1 layout, v3 when it has a pool."""
    magic = 0x0BD10BD0 if part.pool is None else 0x0BD30BD0
    data = struct.pack(order + "II", magic, part.pattern)
    data += struct.pack(order + "QQ", 0x401 + seed, 0x200000400 + seed)
    data += struct.pack(order + "IHH", part.size, part.count & 0xFFFF, part.last & 0xFFFF)
    if part.pool is not None:
        data += part.pool.encode().ljust(16, b"\0")
    for number, ost in enumerate(part.osts):
        if ost is None:
            data += bytes(24)
        else:
            oid = struct.pack(order + "QQ", 0x100 + seed + number, 0x100000000 | ost << 16)
            data += oid + struct.pack(order + "II", 0, ost)
    return data


def composite(
    parts: list[Part],
    order: str = "<",
    *,
    mirrors: int = 1,
    state: int = 0,
    generation: int = 3,
    magic: int = 0x0BD60BD0,
    parities: int = 0,
    seed: int = 1,
    backwards: bool = False,
) -> bytes:
    """A composite layout; `backwards` lays the components' own bytes last first."""
    bodies = [plain(part, order, seed + 50 * n) for n, part in enumerate(parts)]
    position = 32 + 48 * len(parts)
    places = {}
    numbers = range(len(parts))
    for n in reversed(numbers) if backwards else numbers:
        places[n] = position
        position += len(bodies[n])
    data = struct.pack(order + "IIIHHHB", magic, position, generation, state, len(parts),
                       mirrors - 1, parities).ljust(32, b"\0")  # fmt: skip
    for n, part in enumerate(parts):
        data += struct.pack(order + "IIQQII", part.identity, part.flags, part.start, part.end,
                            places[n], len(bodies[n])).ljust(48, b"\0")  # fmt: skip
    return data + b"".join(bodies[n] for n in sorted(numbers, key=lambda n: places[n]))


def foreign(value: bytes, kind: int = 4, flags: int = 0, order: str = "<") -> bytes:
    """A foreign layout."""
    return struct.pack(order + "IIII", 0x0BD70BD0, len(value), kind, flags) + value
