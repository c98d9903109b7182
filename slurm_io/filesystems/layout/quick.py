"""The same bytes as :mod:`slurm_io.filesystems.layout.lov`, at millions of files.

Files of one tree share few *shapes*: everything of a layout but its objects and generations. A
shape is read once by the strict parser; the next file of that shape costs a dictionary look-up and
one ``struct`` call for its OST indices. What does not fit (mirrors, holes, big-endian, foreign, a
strange object) goes through the strict parser each time, so the two cannot disagree.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slurm_io.filesystems.layout import lov, patterns
from slurm_io.filesystems.layout.model import Layout, data_components

_V1 = lov.MAGIC_V1.to_bytes(4, "little")
_V3 = lov.MAGIC_V3.to_bytes(4, "little")
_COMPOSITE = (lov.MAGIC_COMPOSITE.to_bytes(4, "little"), lov.MAGIC_SEL.to_bytes(4, "little"))
_NO_OBJECT = bytes(lov.OBJECT_BYTES)
_MOST_SHAPES = 4096
_BEHIND_ALL = 1 << 64


@dataclass(frozen=True, slots=True)
class Part:
    """A data component: bytes [start, end) of the file on objects [first, first + count)."""

    start_bytes: int
    end_bytes: int
    first: int
    count: int
    stripe_size_bytes: int


@dataclass(frozen=True, slots=True)
class Shape:
    """What files with these bytes have in common. `single` = one data component, from byte 0 on."""

    layout: Layout
    parts: tuple[Part, ...]
    single: bool
    is_released: bool
    has_stale_mirror: bool


Unpack = Callable[[bytes], tuple[int, ...]]
PlainKey = tuple[int, bytes, bytes, bytes]
CompositeKey = tuple[int, bytes, bytes]


class QuickReader:
    """Reads file layouts; keeps the shapes it has seen, a bounded number of them."""

    def __init__(self) -> None:
        self._plain: dict[PlainKey, tuple[Shape, Unpack]] = {}
        self._composite: dict[CompositeKey, _Family] = {}

    def read(self, data: bytes) -> tuple[Shape, tuple[int, ...]]:
        """The shape and the OST of each object of its parts. Raises LayoutError as the parser."""
        magic = data[:4]
        if magic == _V1:
            key = (len(data), data[:8], data[24:30], b"")
        elif magic == _V3:
            key = (len(data), data[:8], data[24:30], data[32:48])
        elif magic in _COMPOSITE:
            return self._read_composite(data)
        else:
            return _strictly(data)
        known = self._plain.get(key)
        if known is None:
            return self._new_plain(key, data)
        osts = known[1](data)
        if osts and (_NO_OBJECT in data or max(osts) >= lov.OST_LIMIT):
            return _strictly(data)
        return known[0], osts

    def _new_plain(self, key: PlainKey, data: bytes) -> tuple[Shape, tuple[int, ...]]:
        shape, osts = _strictly(data)
        if _is_simple(shape.layout):
            header = lov.HEADER_BYTES[int.from_bytes(data[:4], "little")]
            _make_room(self._plain)
            self._plain[key] = shape, _unpacker([header], shape.layout)
        return shape, osts

    def _read_composite(self, data: bytes) -> tuple[Shape, tuple[int, ...]]:
        entries_end = lov.COMPOSITE_BYTES + lov.ENTRY_BYTES * int.from_bytes(data[14:16], "little")
        outer = (len(data), data[:8], data[12:entries_end])  # without the layout generation
        family = self._composite.get(outer)
        if family is None:
            return self._new_composite(outer, data)
        known = family.shapes.get(family.headers(data))
        if known is None:
            return self._new_composite(outer, data)
        osts = known[1](data)
        if osts and (_NO_OBJECT in data or max(osts) >= lov.OST_LIMIT):
            return _strictly(data)
        return known[0], osts

    def _new_composite(self, outer: CompositeKey, data: bytes) -> tuple[Shape, tuple[int, ...]]:
        shape, osts = _strictly(data)
        starts = _part_starts(data, len(shape.layout.components))
        if _is_simple(shape.layout) and starts == sorted(starts):
            family = self._composite.get(outer)
            if family is None:
                _make_room(self._composite)
                family = self._composite[outer] = _family(data, starts)
            heads = [lov.HEADER_BYTES[_u32(data, start)] for start in starts]
            firsts = [start + head for start, head in zip(starts, heads, strict=True)]
            _make_room(family.shapes)
            family.shapes[family.headers(data)] = shape, _unpacker(firsts, shape.layout)
        return shape, osts


@dataclass(frozen=True, slots=True)
class _Family:
    """Composite layouts with the same entries. `headers` takes what is fixed of each component's
    own bytes: magic, pattern, stripe size, count, and where a pool's name may be."""

    headers: Callable[[bytes], tuple[bytes, ...]]
    shapes: dict[tuple[bytes, ...], tuple[Shape, Unpack]]


def _family(data: bytes, starts: list[int]) -> _Family:
    form, position = ["<"], 0
    for start in starts:
        # A pool's place is taken where one fits: in a v1 component these are objects, which would
        # make every file a shape of its own, so there it is left out.
        pool_bytes = lov.HEADER_BYTES[_u32(data, start)] - 32
        form.append(f"{start - position}x8s16x6s2x{pool_bytes}s")
        position = start + 32 + pool_bytes
    return _Family(struct.Struct("".join(form)).unpack_from, {})


def widths_of(shape: Shape, osts: tuple[int, ...], size_bytes: int) -> tuple[int, int]:
    """(objects, distinct OSTs) behind the first `size_bytes`, as `effective_width` counts them."""
    if not shape.single:
        osts = tuple(
            ost
            for part in shape.parts
            if part.start_bytes < max(size_bytes, 1)
            for ost in osts[part.first : part.first + part.count]
        )
    count = len(osts)
    return count, count if count < 2 else len(set(osts))


def shape_of(layout: Layout) -> Shape:
    """The shape of a strictly read layout."""
    parts, first = [], 0
    for part in data_components(layout, None):
        end = _BEHIND_ALL if part.end_bytes is None else part.end_bytes
        count = len(part.osts)
        parts.append(Part(part.start_bytes, end, first, count, part.stripe_size_bytes or 0))
        first += count
    single = len(parts) == 1 and parts[0].start_bytes == 0
    return Shape(layout, tuple(parts), single, layout.is_released, layout.has_stale_mirror)


def _strictly(data: bytes) -> tuple[Shape, tuple[int, ...]]:
    layout = lov.parse_lov(data)
    osts = tuple(ost for part in data_components(layout, None) for ost in part.osts)
    return shape_of(layout), osts


def _is_simple(layout: Layout) -> bool:
    """Only objects and generations may differ between two files of such a shape."""
    return layout.mirror_count == 1 and not any(
        part.foreign is not None
        or part.is_parity
        or part.chosen_osts
        or part.start_bytes == part.end_bytes
        or (part.pattern or 0) & patterns.HOLE
        for part in layout.components
    )


def _unpacker(firsts: list[int], layout: Layout) -> Unpack:
    """One call that takes the OST index of every object; `firsts` are the objects' places."""
    form, position = ["<"], 0
    for first, part in zip(firsts, layout.components, strict=True):
        if part.objects:
            form.append(f"{first - position}x" + "20xI" * len(part.objects))
            position = first + len(part.objects) * lov.OBJECT_BYTES
    return struct.Struct("".join(form)).unpack_from


def _part_starts(data: bytes, count: int) -> list[int]:
    return [
        _u32(data, lov.COMPOSITE_BYTES + number * lov.ENTRY_BYTES + 24) for number in range(count)
    ]


def _u32(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 4], "little")


def _make_room(shapes: dict[Any, Any]) -> None:
    if len(shapes) >= _MOST_SHAPES:
        shapes.clear()
