"""The quick reader against the strict one, as somebody would who wants them to disagree."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.filesystems.layout import quick as quick_module
from slurm_io.filesystems.layout.lov import parse_lov
from slurm_io.filesystems.layout.model import (
    Layout,
    LayoutError,
    data_components,
    effective_width,
)
from slurm_io.filesystems.layout.quick import QuickReader, Shape, osts_behind, shape_of
from tests.filesystems.layout.lov_maker import (
    EXTENSION,
    HOLE,
    INIT,
    MDT,
    PARITY,
    RAID0,
    RELEASED,
    STALE,
    Part,
    composite,
    foreign,
    plain,
)

MIB = 1 << 20
FOUR = Part(osts=(1, 2, 3, 4), count=4)
LATER = Part(count=-1, flags=0, start=MIB, identity=2)
FIRST = Part(osts=(7,), count=1, end=MIB)
MIRRORS = [
    Part(osts=(1, 2), count=2, identity=0x10001, flags=INIT | STALE),
    Part(osts=(3,), count=1, identity=0x20002),
]
FORMS = {
    "plain": plain(FOUR),
    "pool": plain(replace(FOUR, pool="flash")),
    "released": plain(Part(count=4, pattern=RAID0 | RELEASED)),
    "on the MDT": plain(Part(count=0, pattern=MDT)),
    "hole": plain(Part(osts=(1, None), count=2, pattern=RAID0 | HOLE)),
    "big-endian": plain(FOUR, ">"),
    "progressive": composite([FIRST, LATER]),
    "progressive, grown": composite([FIRST, replace(LATER, osts=(1, 2), count=2, flags=INIT)]),
    "progressive, bodies backwards": composite(
        [FIRST, replace(FOUR, start=MIB, identity=2)], backwards=True
    ),
    "self-extending": composite(
        [
            FIRST,
            Part(count=0, size=65536, start=MIB, end=1 << 30, flags=EXTENSION, identity=2),
            Part(count=1, start=1 << 30, flags=0, identity=3),
        ],
        magic=0x0BD80BD0,
    ),
    "mirrors, the first stale": composite(MIRRORS, mirrors=2, state=1),
    "parity": composite(
        [replace(MIRRORS[0], flags=INIT), replace(MIRRORS[1], flags=INIT | PARITY)], mirrors=2
    ),
    "foreign": foreign(b"s3://bucket/key"),
}
Answer = tuple[Shape, tuple[int, ...]] | str


def strict(data: bytes) -> Answer:
    try:
        layout = parse_lov(data)
    except LayoutError as error:
        return str(error)
    return shape_of(layout), tuple(
        ost for part in data_components(layout, None) for ost in part.osts
    )


def quickly(reader: QuickReader, data: bytes) -> Answer:
    try:
        return reader.read(data)
    except LayoutError as error:
        return str(error)


@pytest.mark.parametrize("form", FORMS)
def test_no_change_of_a_byte_is_mistaken_for_what_is_known(form: str) -> None:
    """Whatever the place, the answer for the changed bytes is the strict reader's, refusals too."""
    data, reader = FORMS[form], QuickReader()
    assert quickly(reader, data) == strict(data)
    for place in range(len(data)):
        for value in (0, 1, 0xFF, data[place] ^ 1, data[place] ^ 0x80, (data[place] + 1) & 0xFF):
            changed = data[:place] + bytes([value]) + data[place + 1 :]
            assert quickly(reader, changed) == strict(changed), f"byte {place} = {value}"
        assert quickly(reader, data) == strict(data)


READ_STRICTLY = {"hole", "big-endian", "foreign", "progressive, bodies backwards"}


@pytest.mark.parametrize("form", sorted(set(FORMS) - READ_STRICTLY))
def test_other_objects_and_ids_are_known_without_the_strict_reader(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, reader = FORMS[form], QuickReader()
    reader.read(data)
    other = _with_other_objects(data, parse_lov(data))
    want = strict(other)
    assert other != data

    def parse(data: bytes) -> Layout:
        raise AssertionError("read strictly")

    monkeypatch.setattr(quick_module.lov, "parse_lov", parse)
    assert reader.read(other) == want


def _with_other_objects(data: bytes, layout: Layout) -> bytes:
    """The same shape with another id of the file and other objects on other OSTs."""
    changed = bytearray(data)
    starts = [0]
    if layout.kind == "composite":
        entries = range(len(layout.components))
        starts = [struct.unpack_from("<I", data, 32 + 48 * n + 24)[0] for n in entries]
    for start, part in zip(starts, layout.components, strict=True):
        changed[start + 8 : start + 24] = random.Random(start).randbytes(16)
        objects = start + (48 if data[start + 2] == 0xD3 else 32)
        for number in range(len(part.objects)):
            slot = struct.pack("<QQII", 77 + number, 5, number, 500 + number)
            changed[objects + 24 * number : objects + 24 * (number + 1)] = slot
    return bytes(changed)


@st.composite
def layouts(draw: st.DrawFn) -> bytes:
    """Few values for each field, so that many are nearly the same."""
    osts = draw(st.lists(st.sampled_from((0, 1, 2, 0xFFFE)), min_size=1, max_size=3).map(tuple))
    part = Part(
        osts=osts,
        count=len(osts),
        size=draw(st.sampled_from((65536, 2 * 65536))),
        pool=draw(st.sampled_from((None, "a", "b"))),
    )
    seed, generation = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    kind = draw(st.sampled_from(("plain", "progressive", "mirrors")))
    if kind == "plain":
        return plain(replace(part, last=generation), seed=seed)
    if kind == "progressive":
        end = draw(st.sampled_from((MIB, 2 * MIB)))
        grown = draw(st.booleans())
        second = replace(part, flags=INIT) if grown else Part(count=len(osts), flags=0)
        second = replace(second, start=end, identity=2)
        return composite([replace(part, end=end), second], generation=generation, seed=seed)
    flags = draw(st.sampled_from((INIT, INIT | STALE)))
    both = [replace(part, identity=0x10001, flags=flags), replace(part, identity=0x20002)]
    return composite(both, mirrors=2, generation=generation, seed=seed)


@settings(max_examples=300)
@given(
    datas=st.lists(layouts(), min_size=2, max_size=8), size=st.sampled_from((0, 1, MIB, 3 * MIB))
)
def test_similar_layouts_one_after_another(datas: list[bytes], size: int) -> None:
    reader = QuickReader()
    for data in (*datas, *datas):
        shape, osts = reader.read(data)
        assert (shape, osts) == strict(data)
        assert len(set(osts_behind(shape, osts, size))) == effective_width(parse_lov(data), size)


def test_mirror_that_is_read_is_the_one_that_counts() -> None:
    reader = QuickReader()
    for seed in (1, 2):
        assert reader.read(composite(MIRRORS, mirrors=2, state=1, seed=seed))[1] == (3,)


def test_memory_of_shapes_is_bounded() -> None:
    """Each of an attacker's files has a shape of its own, and all the stripes there can be."""
    reader = QuickReader()
    wide = Part(osts=tuple(range(2000)), count=2000)
    for number in range(1, 300):
        reader.read(plain(replace(wide, size=65536 * number)))
        assert reader._shape_bytes <= quick_module._MOST_SHAPE_BYTES
    for number in range(1, 5000):
        reader.read(plain(replace(FOUR, size=65536 * number)))
        assert reader._shapes <= quick_module._MOST_SHAPES


def test_kinds_of_places_of_one_length_are_bounded() -> None:
    """Twenty objects, dealt out to two components in ever other ways."""
    reader = QuickReader()
    for count in (*range(1, 20), *range(1, 20)):
        osts = tuple(range(20))
        data = composite(
            [
                Part(osts=osts[:count], count=count, end=MIB),
                Part(osts=osts[count:], count=20 - count, start=MIB, identity=2),
            ]
        )
        assert reader.read(data) == strict(data)
    ((_, families),) = reader._families.items()
    assert len(families) == quick_module._MOST_FAMILIES
