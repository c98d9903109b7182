"""The same bytes as :mod:`slurm_io.filesystems.layout.lov`, at millions of files.

Files of one tree share few *shapes*: all of a layout but what belongs to the single file. A shape
is read once by the strict parser; the next file of that shape costs a dictionary look-up and one
``struct`` call for its OST indices.

Why two different layouts are never taken for the same one: the key of a shape is **all** bytes of a
layout but those places that the strict parser found to be object slots, or does not look at (ids,
generations). The places follow from bytes that are in the key (magics, offsets, counts), so they
are the same in every layout with that key. The strict parser asks two things of an object slot (an
OST index that can be, and not all zeros); both are asked here of each file. Layouts of which that
is not enough (holes, OSTs chosen but not used yet, foreign, big-endian) go through the strict
parser each time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from slurm_io.filesystems.layout import lov, patterns
from slurm_io.filesystems.layout.model import Component, Layout, data_components

_LITTLE_ENDIAN = (0x0BD0).to_bytes(2, "little")
_NO_OBJECT = bytes(lov.OBJECT_BYTES)
_MOST_SHAPES = 4096
_MOST_SHAPE_BYTES = 8 << 20
_MOST_FAMILIES = 8
_BEHIND_ALL = 1 << 64
Places = tuple[tuple[int, int], ...]  # (from, to) in a layout's bytes, in order
Unpack = Callable[[bytes], tuple[int, ...]]
Key = Callable[[bytes], tuple[bytes, ...]]


class Part(NamedTuple):
    """A data component: bytes [start, end) of the file on objects [first, first + objects)."""

    start_bytes: int
    end_bytes: int
    first: int
    objects: int
    stripe_size_bytes: int


@dataclass(frozen=True, slots=True)
class Shape:
    """What files with these bytes have in common. A file longer than `last_start_bytes` has bytes
    in all of its parts. `is_bad`: released or stale, to be told whatever the size and the width."""

    parts: tuple[Part, ...]
    last_start_bytes: int
    is_released: bool
    has_stale_mirror: bool
    is_bad: bool


@dataclass(frozen=True, slots=True)
class _Known:
    """A shape and how to take a file's OSTs from its bytes: of all objects, then `chosen` of them
    (those of the mirror a reader uses; None = all)."""

    shape: Shape
    unpack: Unpack
    chosen: slice | None


@dataclass(frozen=True, slots=True)
class _Family:
    """Shapes whose object slots, ids and generations lie in the same `places`."""

    places: Places
    key: Key
    shapes: dict[tuple[bytes, ...], _Known]


class QuickReader:
    """Reads file layouts; keeps the shapes it has seen, a bounded number of bounded size."""

    def __init__(self) -> None:
        self._families: dict[int, list[_Family]] = {}
        self._shapes = 0
        self._shape_bytes = 0

    def read(self, data: bytes) -> tuple[Shape, tuple[int, ...]]:
        """The shape and the OST of each object of its parts. Raises LayoutError as the parser."""
        for family in self._families.get(len(data), ()):
            known = family.shapes.get(family.key(data))
            if known is not None:
                osts = known.unpack(data)
                if not _are_objects(osts, data):
                    break
                return known.shape, osts if known.chosen is None else osts[known.chosen]
        layout = lov.parse_lov(data)
        shape = shape_of(layout)
        self._remember(data, layout, shape)
        return shape, _osts(data_components(layout, None))

    def _remember(self, data: bytes, layout: Layout, shape: Shape) -> None:
        if _needs_strict_reader(data, layout):
            return
        slots = _object_slots(data, layout)
        known = _known(data, layout, slots, shape)
        if known is None:
            return
        if self._shapes >= _MOST_SHAPES or self._shape_bytes + len(data) > _MOST_SHAPE_BYTES:
            self._families.clear()
            self._shapes = self._shape_bytes = 0
        families = self._families.setdefault(len(data), [])
        places = _variable_places(data, layout, slots)
        family = next((each for each in families if each.places == places), None)
        if family is None:
            if len(families) >= _MOST_FAMILIES:
                return
            family = _Family(places, _fixed_bytes(len(data), places), {})
            families.append(family)
        key = family.key(data)
        if key not in family.shapes:
            family.shapes[key] = known
            self._shapes += 1
            self._shape_bytes += len(data)


def _are_objects(osts: tuple[int, ...], data: bytes) -> bool:
    """What the strict parser asks of object slots; False where only it can tell."""
    if len(osts) == 1 and 0 < osts[0] < lov.OST_LIMIT:
        return True
    return not osts or (max(osts) < lov.OST_LIMIT and (0 not in osts or _NO_OBJECT not in data))


def osts_behind(shape: Shape, osts: tuple[int, ...], size_bytes: int) -> tuple[int, ...]:
    """The OST of each object behind the first `size_bytes`."""
    if size_bytes > shape.last_start_bytes:
        return osts
    found: list[int] = []
    for part in shape.parts:
        if part.start_bytes < max(size_bytes, 1):
            found += osts[part.first : part.first + part.objects]
    return tuple(found)


def shape_of(layout: Layout) -> Shape:
    """The shape of a strictly read layout."""
    parts, first = [], 0
    for part in data_components(layout, None):
        end = _BEHIND_ALL if part.end_bytes is None else part.end_bytes
        count = len(part.osts)
        parts.append(Part(part.start_bytes, end, first, count, part.stripe_size_bytes or 0))
        first += count
    last = max((part.start_bytes for part in parts), default=0)
    # An empty file has objects too: those of the part that begins at byte 0.
    released, stale = layout.is_released, layout.has_stale_mirror
    return Shape(tuple(parts), last or -1, released, stale, is_bad=released or stale)


def _osts(parts: Iterable[Component]) -> tuple[int, ...]:
    return tuple(ost for part in parts for ost in part.osts)


def _needs_strict_reader(data: bytes, layout: Layout) -> bool:
    """Is there more to objects than what is asked of each file?"""
    return not data.startswith(_LITTLE_ENDIAN) or any(
        part.foreign is not None or part.chosen_osts or (part.pattern or 0) & patterns.HOLE
        for part in layout.components
    )


def _known(data: bytes, layout: Layout, slots: Places, shape: Shape) -> _Known | None:
    """None when the objects of a reading mirror do not follow one another."""
    if list(slots) != sorted(slots):
        return None
    form, position = ["<"], 0
    for start, end in slots:
        form.append(f"{start - position}x" + "20xI" * ((end - start) // lov.OBJECT_BYTES))
        position = end
    form.append(f"{len(data) - position}x")
    wanted = {part.component_id for part in data_components(layout, None)}
    used = [part.component_id in wanted for part in layout.components for _ in part.objects]
    count, first = sum(used), used.index(True) if True in used else 0
    if not all(used[first : first + count]):
        return None
    chosen = None if count == len(used) else slice(first, first + count)
    return _Known(shape, struct.Struct("".join(form)).unpack, chosen)


def _object_slots(data: bytes, layout: Layout) -> Places:
    """Where the objects of each component lie."""
    found = []
    for start, part in zip(_bodies(data, layout), layout.components, strict=True):
        objects = start + lov.HEADER_BYTES[_u32(data, start)]
        found.append((objects, objects + lov.OBJECT_BYTES * len(part.objects)))
    return tuple(found)


def _variable_places(data: bytes, layout: Layout, slots: Places) -> Places:
    """What may differ between two files of a shape. Of all that the strict parser does not look at,
    that is only what differs from file to file: the fewer pieces a key has, the faster it is."""
    found = [place for place in slots if place[0] < place[1]]
    found += [(start + 8, start + 24) for start in _bodies(data, layout)]  # the file's own id
    if layout.kind == "plain":
        found.append((30, 32))  # generation
    if layout.mirror_count > 1:
        first = lov.COMPOSITE_BYTES + 32  # generation and time of the last resync
        entries = (first + lov.ENTRY_BYTES * number for number in range(len(layout.components)))
        found += [(entry, entry + 12) for entry in entries]
    return tuple(sorted(found))


def _bodies(data: bytes, layout: Layout) -> list[int]:
    """Where each component's own bytes begin."""
    if layout.kind != "composite":
        return [0]
    first = lov.COMPOSITE_BYTES + 24
    return [_u32(data, first + n * lov.ENTRY_BYTES) for n in range(len(layout.components))]


def _fixed_bytes(length: int, places: Places) -> Key:
    """One call that takes every byte but those in `places`."""
    form, position = ["<"], 0
    for start, end in (*places, (length, length)):
        form.append(f"{start - position}s" if start > position else "")
        form.append(f"{end - start}x")
        position = end
    return struct.Struct("".join(form)).unpack


def _u32(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 4], "little")
