"""Proves that an accepted layout explains its bytes: every field is written back over a copy at the
place the format gives it, which must change nothing, and no byte may be left over.

Knows the format only from the table in docs/stripe.md; shares no code with the reader.
"""

from __future__ import annotations

import struct
from itertools import pairwise

from slurm_io.filesystems.layout.model import Component, Layout

V1, V3, SPECIFIC, COMPOSITE, FOREIGN, SEL = (
    0x0BD10BD0, 0x0BD30BD0, 0x0BD50BD0, 0x0BD60BD0, 0x0BD70BD0, 0x0BD80BD0,
)  # fmt: skip


class Overlay:
    """A copy of the bytes, and which of them have been explained."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.copy = bytearray(data)
        self.explained = bytearray(len(data))
        self.order = "<" if data[0:2] == b"\xd0\x0b" else ">"

    def put(self, position: int, form: str, *values: int) -> None:
        struct.pack_into(self.order + form, self.copy, position, *values)
        self.skip(position, struct.calcsize(self.order + form))

    def put_bytes(self, position: int, value: bytes) -> None:
        self.copy[position : position + len(value)] = value
        self.skip(position, len(value))

    def skip(self, position: int, count: int) -> None:
        """Bytes that the model does not hold: ids, generations, padding."""
        assert position + count <= len(self.data)
        self.explained[position : position + count] = b"\1" * count

    def u32(self, position: int) -> int:
        return int(struct.unpack_from(self.order + "I", self.data, position)[0])


def assert_explains(layout: Layout, data: bytes, *, is_directory: bool = False) -> None:
    """AssertionError when the layout and its bytes say different things."""
    over = Overlay(data)
    magic = over.u32(0)
    assert layout.is_template == is_directory
    if magic in (COMPOSITE, SEL):
        _composite(over, layout, is_directory)
    elif magic == FOREIGN:
        assert layout.kind == "foreign"
        _foreign(over, 0, len(data), layout.components[0])
    else:
        assert layout.kind == "plain" and len(layout.components) == 1
        part = layout.components[0]
        assert (part.start_bytes, part.end_bytes) == (0, None)
        assert part.is_instantiated == (not is_directory)
        if not is_directory:
            over.put(30, "H", layout.layout_gen or 0)
        _stripes(over, 0, len(data), part, is_directory)
    assert over.copy == over.data
    unexplained = [n for n, known in enumerate(over.explained) if not known]
    assert not unexplained, f"bytes {unexplained[:10]} mean nothing"


def _composite(over: Overlay, layout: Layout, is_directory: bool) -> None:
    assert layout.kind == "composite"
    parts = layout.components
    over.put(4, "I", len(over.data))
    over.put(8, "I", layout.layout_gen or 0)
    over.put(14, "H", len(parts))
    over.put(16, "H", layout.mirror_count - 1)
    state = {"none": 0, "ro": 1, "wp": 2, "sp": 3}[layout.mirror_state]
    assert struct.unpack_from(over.order + "H", over.data, 12)[0] & 3 == state
    for position, count in ((0, 4), (12, 2), (18, 14)):
        over.skip(position, count)
    ends = []
    for number, part in enumerate(parts):
        entry = 32 + 48 * number
        end = 2**64 - 1 if part.end_bytes is None else part.end_bytes
        over.put(entry, "IIQQ", part.component_id or 0, part.flags, part.start_bytes, end)
        offset, size = over.u32(entry + 24), over.u32(entry + 28)
        over.skip(entry + 24, 24)
        assert offset >= 32 + 48 * len(parts) and offset + size <= len(over.data)
        ends.append((offset, offset + size))
        if part.foreign is not None:
            _foreign(over, offset, offset + size, part)
        else:
            _stripes(over, offset, offset + size, part, is_directory)
    _alignment_gaps(over, sorted(ends), 32 + 48 * len(parts))
    if not is_directory:
        _assert_mirrors_cover_the_file(layout)


def _assert_mirrors_cover_the_file(layout: Layout) -> None:
    ids = [part.component_id for part in layout.components]
    assert None not in ids and len(set(ids)) == len(ids)
    mirrors = {part.mirror_id for part in layout.components}
    with_data = {part.mirror_id for part in layout.components if not part.is_parity}
    assert len(with_data) <= layout.mirror_count <= len(mirrors) + 255
    for mirror in mirrors:
        own = [part for part in layout.components if part.mirror_id == mirror]
        extents = sorted(
            (p.start_bytes, 2**64 if p.end_bytes is None else p.end_bytes) for p in own
        )
        assert extents[0][0] == 0
        assert all(before[1] == after[0] for before, after in pairwise(extents))
        empty = [start for start, end in extents if start == end]
        assert not empty or any(part.is_extension for part in own)


def _alignment_gaps(over: Overlay, ends: list[tuple[int, int]], position: int) -> None:
    for start, end in [*ends, (len(over.data), len(over.data))]:
        assert 0 <= start - position < 8, "components overlap or leave room"
        over.skip(position, start - position)
        position = end


def _stripes(over: Overlay, start: int, end: int, part: Component, is_directory: bool) -> None:
    magic = over.u32(start)
    assert magic in (V1, V3, SPECIFIC)
    over.skip(start, 4)
    assert part.pattern is not None
    over.put(start + 4, "I", part.pattern)
    over.skip(start + 8, 16)
    size = part.stripe_size_bytes if part.extension_size_bytes is None else None
    over.put(start + 24, "I", (part.extension_size_bytes or 0) // 1024 if size is None else size)
    over.put(start + 28, "H", part.stripe_count & 0xFFFF)
    over.skip(start + 30, 2)
    assert part.stripe_count in range(-32, 2001)
    assert size is None or size % 65536 == 0
    assert all(each.ost_index < 0xFFFF for each in part.objects)
    objects = start + 32
    if magic in (V3, SPECIFIC):
        name = (part.pool or "").encode() + b"\0"
        over.put_bytes(objects, name)
        over.skip(objects, 16)
        objects += 16
    else:
        assert part.pool is None
    on_osts = bool(part.pattern & 1) and part.is_instantiated and not part.is_released
    assert len(part.objects) == (part.stripe_count if on_osts and not is_directory else 0)
    for each in part.objects:
        if each.is_hole:
            assert part.pattern & 0x40000000
            over.put_bytes(objects, bytes(24))
        else:
            over.skip(objects, 20)
            over.put(objects + 20, "I", each.ost_index)
            assert any(over.data[objects : objects + 24])
        objects += 24
    for index in part.chosen_osts:
        over.skip(objects, 20)
        over.put(objects + 20, "I", index)
        objects += 24
    assert objects == end, "bytes behind the objects, or objects behind the bytes"


def _foreign(over: Overlay, start: int, end: int, part: Component) -> None:
    found = part.foreign
    assert found is not None and over.u32(start) == FOREIGN
    over.skip(start, 4)
    over.put(start + 4, "III", len(found.value), found.type, found.flags)
    over.put_bytes(start + 16, found.value)
    rest = end - start - 16 - len(found.value)
    assert 0 <= rest < 8
    over.put_bytes(end - rest, bytes(rest))
