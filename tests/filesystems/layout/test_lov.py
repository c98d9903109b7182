"""Bytes made from values give the same values back, in both byte orders; bad ones are refused."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.filesystems.layout.lmv import parse_lmv
from slurm_io.filesystems.layout.lov import parse_lov
from slurm_io.filesystems.layout.model import (
    LayoutError,
    effective_width,
    ost_bytes,
    template_width,
)
from slurm_io.filesystems.layout.quick import QuickReader, osts_behind
from tests.filesystems.layout.lov_maker import (
    END,
    EXTENSION,
    HOLE,
    MDT,
    RAID0,
    RELEASED,
    Part,
    composite,
    foreign,
    plain,
)
from tests.filesystems.layout.lov_overlay import assert_explains
from tests.filesystems.layout.mutations import mutate

FIXTURES = Path(__file__).parents[2] / "fixtures" / "layout"
KIB64 = 65536
orders = st.sampled_from("<>")
pools = st.none() | st.from_regex(r"[a-z][a-z0-9_.-]{0,14}", fullmatch=True)
ost_lists = st.lists(st.integers(0, 0xFFFE), min_size=1, max_size=40).map(tuple)
sizes = st.integers(1, 1024).map(lambda n: n * KIB64)


@st.composite
def striped(draw: st.DrawFn) -> Part:
    osts = draw(ost_lists)
    return Part(osts=osts, count=len(osts), size=draw(sizes), pool=draw(pools))


@st.composite
def progressive(draw: st.DrawFn) -> list[Part]:
    """Components one after the other; from some point on without objects."""
    ends = sorted(draw(st.sets(st.integers(1, 10**6), min_size=0, max_size=5)))
    ready = draw(st.integers(0, len(ends) + 1))
    parts, start = [], 0
    for number, end in enumerate([*(end * KIB64 for end in ends), END]):
        made = draw(striped())
        if number >= ready:
            count = draw(st.integers(-32, 2000))
            made = Part(count=count, size=made.size, pool=made.pool, flags=0)
        parts.append(
            Part(made.osts, made.count, made.size, made.pattern, made.pool, made.flags, start, end,
                 number + 1)
        )  # fmt: skip
        start = end
    return parts


@given(part=striped(), order=orders)
def test_plain_layout_comes_back(part: Part, order: str) -> None:
    data = plain(part, order)
    (found,) = parse_lov(data).components
    assert found.osts == part.osts
    assert (found.stripe_count, found.stripe_size_bytes) == (part.count, part.size)
    assert (found.pool, found.start_bytes, found.end_bytes) == (part.pool, 0, None)
    assert_explains(parse_lov(data), data)


@given(parts=progressive(), order=orders, backwards=st.booleans(), size=st.integers(0, 10**13))
def test_progressive_layout_comes_back(
    parts: list[Part], order: str, backwards: bool, size: int
) -> None:
    data = composite(parts, order, backwards=backwards)
    layout = parse_lov(data)
    assert [part.osts for part in layout.components] == [part.osts for part in parts]
    assert [part.stripe_count for part in layout.components] == [part.count for part in parts]
    assert_explains(layout, data)
    used = {ost for part in parts if part.start < max(size, 1) for ost in part.osts}
    assert effective_width(layout, size) == len(used)


@given(parts=progressive(), seed=st.integers(0, 1000), size=st.integers(0, 10**13))
def test_quick_and_strict_reader_agree(parts: list[Part], seed: int, size: int) -> None:
    quick = QuickReader()
    for generation in (1, 2, 3):  # the first is read strictly, the others by its shape
        data = composite(parts, generation=generation, seed=seed + generation)
        shape, osts = quick.read(data)
        layout = parse_lov(data)
        assert len(set(osts_behind(shape, osts, size))) == effective_width(layout, size)
        assert osts == tuple(ost for part in layout.components for ost in part.osts)


def test_quick_reader_keeps_no_object_of_another_file() -> None:
    quick = QuickReader()
    for osts in ((1, 2), (7, 7), (0, 65534)):
        data = plain(Part(osts=osts, count=2))
        assert quick.read(data)[1] == osts


def test_quick_reader_refuses_what_only_the_objects_show() -> None:
    quick = QuickReader()
    good = plain(Part(osts=(1, 2), count=2))
    quick.read(good)
    for bad in (good[:-4] + b"\xff\xff\xff\xff", good[:32] + bytes(24) + good[56:]):
        with pytest.raises(LayoutError):
            quick.read(bad)


def test_v3_magic_on_a_v1_shape_is_refused_though_the_rest_is_known() -> None:
    quick = QuickReader()
    released = plain(Part(count=4, pattern=RAID0 | RELEASED))
    quick.read(released)
    with pytest.raises(LayoutError, match="truncated"):
        quick.read(released[:2] + b"\xd3" + released[3:])


@given(data=st.binary(max_size=300))
def test_any_bytes_are_refused_in_one_line_or_explained(data: bytes) -> None:
    for is_directory in (False, True):
        for head in (b"", b"\xd0\x0b\xd1\x0b", b"\x0b\xd6\x0b\xd0"):
            try:
                layout = parse_lov(head + data, is_directory=is_directory)
            except LayoutError as error:
                assert str(error).isprintable()
            else:
                assert_explains(layout, head + data, is_directory=is_directory)


@settings(max_examples=200)
@given(seed=st.integers(0, 2**32), number=st.integers(0, 12))
def test_damaged_samples_never_crash(seed: int, number: int) -> None:
    samples = [path.read_bytes() for path in sorted(FIXTURES.glob("*.bin"))]
    samples = [data for data in samples if len(data) < 4096]
    data = mutate(samples[number % len(samples)], samples, random.Random(seed))
    try:
        layout = parse_lov(data)
    except LayoutError:
        return
    assert_explains(layout, data)


def test_every_truncation_of_every_file_layout_is_refused() -> None:
    for path in sorted(FIXTURES.glob("xattr_*.bin")):
        data = path.read_bytes()
        if len(data) > 4096 or "truncated" in path.name or "unknown" in path.name:
            continue
        for end in range(len(data)):
            for is_directory in (False, True):
                with pytest.raises(LayoutError):
                    layout = parse_lov(data[:end], is_directory=is_directory)
                    # The header of a plain file alone is a template: nothing is lost by that.
                    if is_directory and end in (32, 48):
                        assert layout.is_template
                        raise LayoutError("a whole template")


def patched(data: bytes, place: int, form: str, *values: int) -> bytes:
    """A layout that lies in one field."""
    changed = bytearray(data)
    struct.pack_into("<" + form, changed, place, *values)
    return bytes(changed)


E2 = Part(osts=(2, 3), count=2, start=1 << 20, identity=2)
E1 = Part(osts=(1,), count=1, end=1 << 20)
REFUSED = {
    "an OST index that cannot be": plain(Part(osts=(0xFFFF,), count=1)),
    "more stripes than Lustre has": plain(Part(osts=(1,) * 2001, count=2001)),
    "no stripe": plain(Part(count=0)),
    "a template's count in a file": plain(Part(count=-1)),
    "stripes of an odd size": plain(Part(osts=(1,), count=1, size=4096)),
    "stripes of no size": plain(Part(osts=(1,), count=1, size=0)),
    "a stripe without object": plain(Part(osts=(None,), count=1)),
    "objects behind a released file": plain(Part(osts=(1,), count=1, pattern=RAID0 | RELEASED)),
    "objects on the MDT": plain(Part(osts=(1,), count=1, pattern=MDT)),
    "stripes on the MDT": plain(Part(count=1, pattern=MDT)),
    "neither raid0 nor mdt": plain(Part(osts=(1,), count=1, pattern=0)),
    "both raid0 and mdt": plain(Part(osts=(1,), count=1, pattern=RAID0 | MDT)),
    "a pool name with a slash": plain(Part(osts=(1,), count=1, pool="a/b")),
    "a pool name without end": plain(Part(osts=(1,), count=1, pool="a" * 16)),
    "a byte too many": plain(Part(osts=(1,), count=1)) + b"\0",
    "a gap between components": composite([E1, Part(osts=(2,), count=1, start=2 << 20,
                                                    identity=2)]),
    "an overlap of components": composite([E1, Part(osts=(2,), count=1, start=0, identity=2)]),
    "a file that begins late": composite([E2]),
    "the same id twice": composite([E1, Part(osts=(2,), count=1, start=1 << 20, identity=1)]),
    "no id": composite([Part(osts=(1,), count=1, identity=0)]),
    "two mirrors, one announced": composite([Part(osts=(1,), count=1, identity=0x10001),
                                             Part(osts=(2,), count=1, identity=0x20002)]),
    "an empty component": composite([Part(osts=(1,), count=1, end=0),
                                     Part(osts=(1,), count=1, identity=2)]),
    "an extension with objects": composite([Part(osts=(1,), count=1, flags=EXTENSION | 0x10)]),
    "a backward extent": composite([Part(osts=(1,), count=1, start=9, end=3)]),
    "a foreign value cut short": foreign(b"abcdef")[:-3],
    "a foreign value with more behind it": foreign(b"abcdef") + b"x",
    "a foreign value of 4 GiB": foreign(b"abcdef")[:4] + b"\xff" * 4 + foreign(b"abcdef")[8:],
    "stripes of nearly 4 GiB": plain(Part(osts=(1,), count=1, size=0xFFFFFFFF)),
    "65535 stripes of one object": plain(Part(osts=(1,), count=0xFFFF)),
    "65535 components": patched(composite([E1, E2]), 14, "H", 0xFFFF),
    "65536 mirrors": patched(composite([E1, E2]), 16, "H", 0xFFFF),
    "255 parities of nothing": patched(composite([E1, E2]), 16, "HB", 0xFFFF, 0xFF),
    "a component of 4 GiB": patched(composite([E1, E2]), 32 + 28, "I", 0xFFFFFFFF),
    "a component that begins at 4 GiB": patched(composite([E1, E2]), 32 + 24, "I", 0xFFFFFFFF),
    "a component within the entries": patched(composite([E1, E2]), 32 + 24, "I", 32),
    "a layout of 4 GiB": patched(composite([E1, E2]), 4, "I", 0xFFFFFFFF),
    "extents that overlap by one byte": composite([E1, replace(E2, start=E2.start - 1)]),
    "extents that overlap in the second mirror": composite(
        [Part(osts=(1,), count=1, identity=0x10001),
         Part(osts=(1,), count=1, end=9, identity=0x20002),
         Part(osts=(1,), count=1, start=8, identity=0x20003)], mirrors=2),
    "two components to the end of the file": composite([replace(E1, end=2**64 - 1), E2]),
    "64 KiB of a component's head, again and again": (composite([E1])[:80] * 820)[:65536],
    "nothing": b"",
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    with pytest.raises(LayoutError) as caught:
        parse_lov(REFUSED[what])
    assert str(caught.value).isprintable() and len(str(caught.value)) < 120
    with pytest.raises(LayoutError):
        QuickReader().read(REFUSED[what])


def test_components_whose_bytes_overlap_are_refused() -> None:
    data = bytearray(composite([E1, E1, E2]))
    good = composite([E1, E2])
    same = bytearray(good)
    struct.pack_into("<I", same, 32 + 48 + 24, struct.unpack_from("<I", same, 32 + 24)[0])
    for bad in (bytes(data), bytes(same)):
        with pytest.raises(LayoutError):
            parse_lov(bad)


def test_unknown_bits_are_kept_and_reported_while_the_sizes_fit() -> None:
    layout = parse_lov(plain(Part(osts=(5,), count=1, pattern=RAID0 | 0x2000)))
    assert layout.components[0].pattern == RAID0 | 0x2000
    assert layout.remarks == ("unknown pattern bits 0x2000",)
    flagged = parse_lov(composite([Part(osts=(5,), count=1, flags=0x10 | 0x8000)]))
    assert flagged.remarks == ("unknown component flags 0x8000",)


def test_hole_is_no_ost() -> None:
    layout = parse_lov(plain(Part(osts=(0, None, 2), count=3, pattern=RAID0 | HOLE)))
    assert layout.components[0].osts == (0, 2)
    assert effective_width(layout, 10**9) == 2


def test_templates_are_counted_with_the_osts_there_are() -> None:
    everywhere = parse_lov(plain(Part(count=-1, last=-1)), is_directory=True)
    assert everywhere.components[0].stripe_offset == -1
    assert template_width(everywhere, None) is None
    assert template_width(everywhere, 6) == 6
    assert template_width(parse_lov(plain(Part(count=8)), is_directory=True), 6) == 6


@given(part=striped(), size=st.integers(0, 10**12))
def test_bytes_per_ost_add_up_to_the_file(part: Part, size: int) -> None:
    assert sum(ost_bytes(parse_lov(plain(part)), size).values()) == size


@given(parts=progressive(), size=st.integers(0, 10**12))
def test_bytes_per_ost_add_up_to_the_instantiated_part(parts: list[Part], size: int) -> None:
    covered = max((min(part.end, size) for part in parts if part.osts), default=0)
    assert sum(ost_bytes(parse_lov(composite(parts)), size).values()) == covered


@pytest.mark.parametrize("count", [2001, 0x7FFFFFFF, 0x80000000, 0xFFFFFFDF])
def test_mdt_layout_with_stripes_that_cannot_be_is_refused(count: int) -> None:
    with pytest.raises(LayoutError):
        parse_lmv(struct.pack("<II", 0x0CD30CD0, count) + bytes(40))


def test_mdt_layout_on_all_servers() -> None:
    assert parse_lmv(struct.pack("<II", 0x0CD30CD0, 0xFFFFFFFF) + bytes(40)).stripe_count == -1


@given(data=st.binary(max_size=80))
def test_mdt_layouts_are_read_or_refused(data: bytes) -> None:
    try:
        parse_lmv(b"\xd0\x0c\xd3\x0c" + data)
    except LayoutError as error:
        assert str(error).isprintable()
