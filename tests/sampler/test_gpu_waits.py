"""What the GPU says of a wait: from the ring to the table, and what hostile bytes make of it."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from tests.sampler.ring_maker import RingMaker
from tests.sampler.test_rings import OFFSET_NS, named, rings_of

_BODY = struct.Struct("<QBBHIQQIIQqQ")


def tell(
    ring: RingMaker, start_ns: int, end_ns: int, idle_ns: int, *, flags: int = 4, index: int = 7,
    epoch: int = 3,
) -> None:  # fmt: skip
    """A GPU record."""
    number = ring.written + 1
    ring.raw(_BODY.pack(number, 4, flags, 2, epoch, start_ns, end_ns, index, 0, 0, idle_ns, number))


def test_a_record_becomes_a_row_with_the_clocks_of_its_wait(tmp_path: Path) -> None:
    ring = RingMaker(tmp_path, greeting={"rank": 5})
    ring.batch(1000, 4000, flags=4, loader=2, epoch=3, index=7)
    tell(ring, 1000, 4000, 2500)
    rings = rings_of(tmp_path)
    steps, events = rings.drain()
    assert (len(steps), events) == (1, [])
    assert named("gpu_waits", rings.take_gpu_waits()) == [
        {
            "ts_ns": 1000 + OFFSET_NS, "mono_ns": 1000, "pid": os.getpid(), "rank": 5, "loader": 2,
            "epoch": 3, "batch": 7, "gpu_idle_ns": 2500,
        }
    ]  # fmt: skip
    assert rings.take_gpu_waits() == []


def test_a_busy_gpu_stands_in_the_row_of_the_step(tmp_path: Path) -> None:
    ring = RingMaker(tmp_path)
    ring.batch(1000, 4000, gpu_idle_ns=0)
    rings = rings_of(tmp_path)
    assert [row["gpu_idle_ns"] for row in named("steps", rings.drain()[0])] == [0]
    assert rings.take_gpu_waits() == []


def test_more_idle_time_than_wait_is_the_wait(tmp_path: Path) -> None:
    tell(RingMaker(tmp_path), 1000, 4000, 2**62)
    rings = rings_of(tmp_path)
    rings.drain()
    assert [row["gpu_idle_ns"] for row in named("gpu_waits", rings.take_gpu_waits())] == [3000]


@pytest.mark.parametrize(
    ("start_ns", "end_ns", "idle_ns", "more"),
    [
        (1000, 4000, -1, {}),
        (4000, 1000, 0, {}),
        (1000, 2**63, 0, {}),
        (1000, 4000, 0, {"epoch": 2**31}),
        (1000, 4000, 0, {"index": 2**31}),
    ],
)
def test_nonsense_is_counted_and_gives_no_row(
    tmp_path: Path, start_ns: int, end_ns: int, idle_ns: int, more: dict[str, int]
) -> None:
    tell(RingMaker(tmp_path), start_ns, end_ns, idle_ns, **more)
    rings = rings_of(tmp_path)
    rings.drain()
    assert rings.take_gpu_waits() == []
    assert rings.counts()["refused"] == 1


def test_a_prefetch_threads_wait_gives_no_row(tmp_path: Path) -> None:
    tell(RingMaker(tmp_path), 1000, 4000, 0, flags=16)
    rings = rings_of(tmp_path)
    rings.drain()
    assert rings.take_gpu_waits() == []


def test_what_was_not_measured_stands_with_the_rank(tmp_path: Path) -> None:
    ring = RingMaker(tmp_path)
    ring.batch()
    rings = rings_of(tmp_path)
    rings.drain()
    assert rings.rank_facts()[0]["gpu_idle"] is None
    os.pwrite(ring._fd, struct.pack("<QQQ", 3, 2, 1), 64)
    told = rings.rank_facts()[0]["gpu_idle"]
    assert told == {"dropped": 3, "skipped": 2, "failed": True}
    os.pwrite(ring._fd, struct.pack("<QQQ", 2**64 - 1, 2, 1), 64)
    assert rings.rank_facts()[0]["gpu_idle"] is None
