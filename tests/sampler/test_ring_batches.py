"""Batches read many at a time give the very rows that they give one by one."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.sampler.ring_batches import LEAST, take_batches, whole_in_order
from slurm_io.sampler.ring_format import RECORD, parse_record
from slurm_io.sampler.ring_rows import RingRows
from slurm_io.sampler.rings import Rings
from tests.sampler.packed_rows import drained_steps, unpacked
from tests.sampler.ring_maker import RingMaker

Row = tuple[object, ...]
OFFSET_NS = 1_790_000_000 * 10**9
PID, RANK = 77, 3

_u64 = st.integers(0, 2**64 - 1)
_time = st.integers(0, 10**15) | _u64
_small = st.integers(0, 10**6) | st.integers(0, 2**32 - 1)
_idle = st.just(-1) | st.integers(-(2**63), 2**63 - 1)


@st.composite
def _records(draw: st.DrawFn) -> bytes:
    """Records numbered from 1: batches of few loaders and flags, a few of other kinds between, and
    now and then a field that makes no sense."""
    sane = draw(st.booleans())
    head = st.tuples(st.sampled_from([0, 7, 16]), st.integers(0, 1), st.integers(0, 1) | _small)
    heads = draw(st.lists(head, min_size=1, max_size=2))
    records = []
    for number in range(1, draw(st.integers(1, 40)) + 1):
        kind = 1 if draw(st.integers(0, 9)) else draw(st.integers(2, 5))
        flags, loader, epoch = heads[draw(st.integers(0, 3)) == 3 and len(heads) > 1]
        start = draw(st.integers(0, 10**15)) if sane else draw(_time)
        end = start + draw(st.integers(0, 10**10)) if sane else draw(_time)
        records.append(
            RECORD.pack(
                number, kind, flags, loader, epoch, start, end % 2**64,
                draw(_small) % 2**31 if sane else draw(_small), draw(_small),
                draw(st.just(0) | st.integers(0, 10**15)) if sane else draw(_time),
                draw(_idle), number,
            )
        )  # fmt: skip
    return b"".join(records)


def rings_of(folder: Path) -> Rings:
    """Of processes that all live."""
    return Rings(folder, os.getuid(), OFFSET_NS, lambda pid, _starttime, _space: pid)


def one_by_one(raw: bytes, since_ns: int) -> tuple[list[Row], RingRows]:
    """By the record's own parser."""
    maker = RingRows(PID, RANK, OFFSET_NS, since_ns)
    records = [parse_record(raw, offset) for offset in range(0, len(raw), 64)]
    steps, _events = maker.convert(record for record in records if record is not None)
    return steps, maker


def many_at_a_time(raw: bytes, since_ns: int) -> tuple[list[Row], RingRows]:
    """As the ring gives them."""
    maker = RingRows(PID, RANK, OFFSET_NS, since_ns)
    runs, others = take_batches(raw, len(raw) // 64)
    records = [parse_record(raw, place * 64) for place in others]
    steps, _events = maker.convert([*runs, *(one for one in records if one is not None)])
    for block in maker.take_packed():
        steps += unpacked(block)
    return steps, maker


@given(raw=_records(), since_ns=st.just(-1) | st.integers(0, 10**15))
def test_the_rows_are_those_of_one_record_after_the_other(raw: bytes, since_ns: int) -> None:
    slow, slow_maker = one_by_one(raw, since_ns)
    fast, fast_maker = many_at_a_time(raw, since_ns)
    key = [[str(cell) for cell in row] for row in slow]
    assert sorted(key) == sorted([str(cell) for cell in row] for row in fast)
    assert fast_maker.batches == slow_maker.batches
    assert (fast_maker.first_ns, fast_maker.last_ns) == (slow_maker.first_ns, slow_maker.last_ns)


@given(
    numbers=st.lists(st.integers(1, 12), max_size=20) | st.just(list(range(5, 15))),
    backs=st.lists(st.integers(0, 1), min_size=20, max_size=20),
    cut=st.integers(0, 63),
)
def test_whole_records_in_order_are_counted_up_to_the_first_that_is_not(
    numbers: list[int], backs: list[int], cut: int
) -> None:
    torn = zip(numbers, backs, strict=False)
    raw = b"".join(struct.pack("<Q48xQ", n, n if whole else 0) for n, whole in torn)
    raw = raw[: len(raw) - cut] if len(raw) > cut else raw
    expected = 0
    while 64 * (expected + 1) <= len(raw):
        first, last = struct.unpack_from("<Q48xQ", raw, 64 * expected)
        if not first == last == 5 + expected:
            break
        expected += 1
    assert whole_in_order(raw, 5) == expected


def test_a_long_run_is_packed_and_a_short_one_is_not(tmp_path: Path) -> None:
    ring, rings = RingMaker(tmp_path, n_records=256), rings_of(tmp_path)
    for index in range(LEAST - 1):
        ring.batch(index=index)
    assert len(rings.drain()[0]) == LEAST - 1
    for index in range(100):
        ring.batch(1000 + index, 2000 + index, index=index, epoch=index // 50)
    assert rings.drain() == ([], [])
    assert sum(block.n_rows for block in rings.take_packed()) == 100


@pytest.mark.parametrize("pace", [1, 2, 4, 8])
def test_at_any_pace_no_step_is_lost(pace: int, tmp_path: Path) -> None:
    """Ten rings, of which one steps so fast that it is full long before its turn."""
    makers = [RingMaker(tmp_path, pid=n, starttime=n, n_records=1024) for n in range(1, 11)]
    rings = rings_of(tmp_path)
    written, found = 0, []
    for second in range(80):
        for number, maker in enumerate(makers):
            for _ in range(250 if number == 0 and second > 40 else 3):
                maker.batch(1000 + written, 2000 + written, index=written)
                written += 1
        steps, _events = rings.drain(pace)
        found += steps
        for block in rings.take_packed():
            found += unpacked(block)
    found += drained_steps(rings)
    assert sorted(row[6] for row in found) == list(range(written))  # type: ignore[type-var]
    assert rings.counts()["overrun"] == 0
    for maker in makers:
        maker.close()
