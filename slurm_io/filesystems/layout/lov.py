"""Strict reader of the bytes of ``lustre.lov`` and ``trusted.lov``.

All forms up to Lustre 2.17: plain v1 and v3, SPECIFIC, composite (PFL, DoM, FLR, SEL, parity),
foreign, and directory defaults; both byte orders. Offsets are those of lustre_user.h; see
docs/stripe.md for the table. Every size, count and offset is checked against the bytes that are
there: what is not certain is a :class:`LayoutError`, never a guess.
"""

from __future__ import annotations

import struct
from dataclasses import replace

from slurm_io.filesystems.layout import patterns
from slurm_io.filesystems.layout.extents import (
    ALIGNMENT_BYTES,
    check_mirrors,
    check_places,
    mirror_groups,
)
from slurm_io.filesystems.layout.model import Component, Foreign, Layout, LayoutError, Object

MAGIC_V1 = 0x0BD10BD0
MAGIC_V3 = 0x0BD30BD0
MAGIC_SPECIFIC = 0x0BD50BD0
MAGIC_COMPOSITE = 0x0BD60BD0
MAGIC_FOREIGN = 0x0BD70BD0
MAGIC_SEL = 0x0BD80BD0
HEADER_BYTES = {MAGIC_V1: 32, MAGIC_V3: 48, MAGIC_SPECIFIC: 48}
OBJECT_BYTES = 24
COMPOSITE_BYTES = 32
ENTRY_BYTES = 48
MAX_STRIPES = 2000
MIN_STRIPE_BYTES = 65536
END_OF_FILE = 2**64 - 1
OST_LIMIT = 0xFFFF
_ID_LIMIT = 0x7FFFFFFF


def parse_lov(data: bytes, *, is_directory: bool = False) -> Layout:
    """The layout in an attribute's bytes; of a directory its template.

    Raises LayoutError, one line, for anything that is not a whole layout.
    """
    order, magic = _order_and_magic(data)
    if magic in (MAGIC_COMPOSITE, MAGIC_SEL):
        return _composite(data, order, is_directory)
    if magic == MAGIC_FOREIGN:
        part = _foreign(data, order, "the layout")
        return Layout("foreign", (part,), is_template=is_directory)
    if magic in HEADER_BYTES:
        return _plain(data, order, is_directory)
    raise LayoutError(f"unknown magic 0x{magic:08X}: a Lustre newer than this reader?")


def _order_and_magic(data: bytes) -> tuple[str, int]:
    if len(data) < 4:
        raise LayoutError(f"truncated: {len(data)} bytes cannot hold a layout")
    for order in "<>":
        (magic,) = struct.unpack_from(order + "I", data)
        if magic & 0xFFFF == 0x0BD0:
            return order, magic
        if magic & 0xFFFF == 0x0CD0:
            raise LayoutError("this is a directory's MDT striping (LMV), not a file layout")
    raise LayoutError(f"not a layout: it begins with {data[:4].hex()}")


def _plain(data: bytes, order: str, is_directory: bool) -> Layout:
    flags = 0 if is_directory else patterns.INSTANTIATED
    blank = Component(None, flags, 0, None, None, 0, None)
    part, generation = _stripes(data, order, blank, is_directory, "the layout")
    return Layout(
        "plain",
        (part,),
        layout_gen=None if is_directory else generation,
        is_template=is_directory,
        remarks=tuple(_remarks((part,))),
    )


def _composite(data: bytes, order: str, is_directory: bool) -> Layout:
    if len(data) < COMPOSITE_BYTES:
        raise LayoutError(f"truncated: {len(data)} bytes of a composite layout's header")
    size, generation, flags, count, mirrors, parities = struct.unpack_from(
        order + "IIHHHB", data, 4
    )
    if size != len(data):
        what = "truncated" if size > len(data) else "too long"
        raise LayoutError(f"{what}: lcm_size {size} but {len(data)} bytes")
    if count == 0 or COMPOSITE_BYTES + count * ENTRY_BYTES > size:
        raise LayoutError(f"{count} components do not fit into {size} bytes")
    parts, places = [], []
    for number in range(count):
        part, place = _entry(data, order, number, is_directory)
        parts.append(part)
        places.append(place)
    check_places(places, COMPOSITE_BYTES + count * ENTRY_BYTES, size)
    groups = mirror_groups(parts, is_directory)
    check_mirrors(groups, mirrors + 1, parities)
    unknown = flags & ~0xF
    remarks = [f"unknown layout flags {unknown:#x}"] if unknown else []
    return Layout(
        "composite",
        tuple(parts),
        mirror_count=mirrors + 1,
        mirror_state=patterns.MIRROR_STATES.get(flags & 3, "none"),
        layout_gen=generation,
        is_template=is_directory,
        remarks=(*remarks, *_remarks(parts)),
    )


def _entry(
    data: bytes, order: str, number: int, is_directory: bool
) -> tuple[Component, tuple[int, int]]:
    """One component and the bytes (from, to) its own part takes."""
    where = f"component {number + 1}"
    identity, flags, start, end, offset, size = struct.unpack_from(
        order + "IIQQII", data, COMPOSITE_BYTES + number * ENTRY_BYTES
    )
    if identity > _ID_LIMIT or (identity == 0 and not is_directory):
        raise LayoutError(f"{where}: {identity:#x} is no component id")
    if start > end:
        raise LayoutError(f"{where}: begins at {start} and ends at {end}")
    if is_directory and flags & patterns.INSTANTIATED:
        raise LayoutError(f"{where}: a template with objects")
    if offset + size > len(data):
        raise LayoutError(f"{where}: bytes {offset} to {offset + size} of {len(data)}")
    blank = Component(
        component_id=identity or None,
        flags=flags,
        start_bytes=start,
        end_bytes=None if end == END_OF_FILE else end,
        pattern=None,
        stripe_count=0,
        stripe_size_bytes=None,
    )
    own = data[offset : offset + size]
    if own[:4] == struct.pack(order + "I", MAGIC_FOREIGN):
        found = _foreign(own, order, where)
        part = replace(blank, pattern=found.pattern, foreign=found.foreign)
    else:
        part, _ = _stripes(own, order, blank, is_directory, where)
    return part, (offset, offset + size)


def _stripes(
    data: bytes, order: str, blank: Component, is_template: bool, where: str
) -> tuple[Component, int]:
    """Fill `blank` in from a v1, v3 or SPECIFIC header and its objects; also its layout_gen."""
    if len(data) < 32:
        raise LayoutError(f"{where}: truncated: {len(data)} bytes of a header")
    magic, pattern = struct.unpack_from(order + "II", data)
    size, count, last = struct.unpack_from(order + "IHH", data, 24)
    header = HEADER_BYTES.get(magic)
    if header is None:
        raise LayoutError(f"{where}: unknown magic 0x{magic:08X}")
    if len(data) < header:
        raise LayoutError(f"{where}: truncated: {len(data)} bytes of a header")
    part = replace(
        blank,
        pattern=pattern,
        stripe_count=count if count < 0xFFE0 else count - 0x10000,
        stripe_size_bytes=size,
        pool=_pool(data[32:48], where) if header == 48 else None,
    )
    _check_pattern(part, is_template, where)
    part = _check_stripe_size(part, where)
    rest = data[header:]
    if part.is_instantiated and not part.is_released and not part.is_on_mdt:
        part = replace(part, objects=_objects(rest, order, part, where))
        return replace(part, stripe_offset=next(iter(part.osts), None)), last
    part = replace(part, stripe_offset=last if last != 0xFFFF else -1) if is_template else part
    if magic == MAGIC_SPECIFIC and rest:
        return replace(part, chosen_osts=_chosen(rest, order, part, where)), last
    _check_length(rest, 0, part, where)
    return part, last


def _check_pattern(part: Component, is_template: bool, where: str) -> None:
    pattern, count = part.pattern or 0, part.stripe_count
    if pattern & patterns.FOREIGN:
        raise LayoutError(f"{where}: pattern {pattern:#x} is foreign, its header is not")
    bases = bool(pattern & patterns.RAID0) + bool(pattern & patterns.MDT)
    if bases != 1 and not (is_template and pattern == 0):
        raise LayoutError(f"{where}: pattern {pattern:#x} is neither raid0 nor mdt")
    if is_template and part.is_released:
        raise LayoutError(f"{where}: a released template")
    if part.is_on_mdt and count != 0:
        raise LayoutError(f"{where}: data on MDT with {count} stripes")
    if part.is_extension and part.is_instantiated:
        raise LayoutError(f"{where}: an extension with objects")
    needs_objects = part.is_instantiated and not part.is_released and not part.is_on_mdt
    if count > MAX_STRIPES or (needs_objects and count < 1):
        raise LayoutError(f"{where}: {count & 0xFFFF} stripes: 1 to {MAX_STRIPES} can be")


def _check_stripe_size(part: Component, where: str) -> Component:
    """Extension components give, in the same place, their size in KiB."""
    size = part.stripe_size_bytes or 0
    if part.is_extension:
        if size == 0:
            raise LayoutError(f"{where}: an extension by nothing")
        return replace(part, stripe_size_bytes=None, extension_size_bytes=size * 1024)
    if size % MIN_STRIPE_BYTES or (size == 0 and part.is_instantiated):
        raise LayoutError(f"{where}: stripes of {size} bytes: multiples of 64 KiB can be")
    return part


def _objects(rest: bytes, order: str, part: Component, where: str) -> tuple[Object, ...]:
    _check_length(rest, part.stripe_count, part, where)
    return tuple(
        _object(rest[position : position + OBJECT_BYTES], order, part, where)
        for position in range(0, len(rest), OBJECT_BYTES)
    )


def _object(slot: bytes, order: str, part: Component, where: str) -> Object:
    if not any(slot):
        if not (part.pattern or 0) & patterns.HOLE:
            raise LayoutError(f"{where}: a stripe without object in a layout without holes")
        return Object(0, is_hole=True)
    return Object(_ost_index(slot, order, where))


def _chosen(rest: bytes, order: str, part: Component, where: str) -> tuple[int, ...]:
    _check_length(rest, max(part.stripe_count, 0), part, where)
    slots = (rest[at : at + OBJECT_BYTES] for at in range(0, len(rest), OBJECT_BYTES))
    return tuple(_ost_index(slot, order, where) for slot in slots)


def _ost_index(slot: bytes, order: str, where: str) -> int:
    index: int = struct.unpack_from(order + "I", slot, 20)[0]
    if index >= OST_LIMIT:
        raise LayoutError(f"{where}: {index:#x} is no OST index")
    return index


def _check_length(rest: bytes, objects: int, part: Component, where: str) -> None:
    if len(rest) != objects * OBJECT_BYTES:
        what = "truncated" if len(rest) < objects * OBJECT_BYTES else "too long"
        unknown = (part.pattern or 0) & ~patterns.KNOWN_PATTERN
        hint = f" (unknown pattern bits {unknown:#x})" if unknown else ""
        raise LayoutError(f"{where}: {what}: {len(rest)} bytes for {objects} objects{hint}")


def _pool(raw: bytes, where: str) -> str | None:
    name, end, _ = raw.partition(b"\0")
    if not end or not all(0x21 <= byte <= 0x7E and byte != 0x2F for byte in name):
        raise LayoutError(f"{where}: {raw!r} is no pool name")
    return name.decode("ascii") or None


def _foreign(data: bytes, order: str, where: str) -> Component:
    if len(data) < 16:
        raise LayoutError(f"{where}: truncated: {len(data)} bytes of a foreign layout")
    length, kind, flags = struct.unpack_from(order + "III", data, 4)
    padding = data[16 + length :]
    if 16 + length > len(data) or len(padding) >= ALIGNMENT_BYTES or any(padding):
        raise LayoutError(f"{where}: foreign value of {length} bytes in {len(data) - 16}")
    value = data[16 : 16 + length]
    found = Foreign(kind, patterns.FOREIGN_TYPES.get(kind), flags, value)
    return Component(None, 0, 0, None, patterns.FOREIGN, 0, None, foreign=found)


def _remarks(parts: list[Component] | tuple[Component, ...]) -> list[str]:
    pattern = flags = 0
    for part in parts:
        pattern |= (part.pattern or 0) & ~patterns.KNOWN_PATTERN
        flags |= part.flags & ~patterns.KNOWN_FLAGS
    found = [f"unknown pattern bits {pattern:#x}"] if pattern else []
    return found + ([f"unknown component flags {flags:#x}"] if flags else [])
