"""What the hook counts of waits in which the training thread reads itself, in meta.json."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from slurm_io.hook import record
from slurm_io.sampler import ring_format
from tests.sampler.ring_maker import RingMaker
from tests.sampler.test_rings import rings_of


def ring_with(folder: Path, *waits: tuple[int, int]) -> RingMaker:
    """A ring whose loaders 1, 2, … counted (wait, CPU) ns."""
    ring = RingMaker(folder)
    ring.batch()
    with open(ring.path, "r+b") as file:
        file.seek(128)
        file.writelines(struct.pack("<QQ", *pair) for pair in waits)
    return ring


def facts(folder: Path) -> list[dict[str, Any]]:
    rings = rings_of(folder)
    rings.drain()
    (rank,) = rings.rank_facts()
    assert rank["pid"] == os.getpid()
    found: list[dict[str, Any]] = rank["own_waits"]
    return found


def test_both_sides_mean_the_same_bytes() -> None:
    assert ring_format.OWN_WAITS_OFFSET == 8 * record.OWN_WORD
    assert ring_format.OWN_WAITS_BYTES == 16 * record.OWN_LOADERS
    assert ring_format.OWN_WAITS_OFFSET + ring_format.OWN_WAITS_BYTES <= record.GREETING_OFFSET


def test_loaders_that_counted_are_told(tmp_path: Path) -> None:
    ring_with(tmp_path, (5_000, 700), (0, 0), (9_000, 9_000))
    assert facts(tmp_path) == [
        {"loader": 1, "wait_ns": 5_000, "cpu_ns": 700},
        {"loader": 3, "wait_ns": 9_000, "cpu_ns": 9_000},
    ]


def test_an_older_hook_tells_none(tmp_path: Path) -> None:
    ring_with(tmp_path)
    assert facts(tmp_path) == []


@pytest.mark.parametrize("pair", [(2**64 - 1, 1), (5, 6), (0, 7), (5, 2**64 - 1)])
def test_absurd_counts_are_not_told(tmp_path: Path, pair: tuple[int, int]) -> None:
    ring_with(tmp_path, pair)
    assert facts(tmp_path) == []


def test_the_last_meta_json_is_written_behind_the_close_and_knows_them_still(
    tmp_path: Path,
) -> None:
    """And the counts of the GPU side beside them; the files of living processes stay."""
    ring = ring_with(tmp_path, (5_000, 700))
    with open(ring.path, "r+b") as file:
        file.seek(64)
        file.write(struct.pack("<QQQ", 3, 0, 0))
    rings = rings_of(tmp_path)
    rings.drain()
    before, counts = rings.rank_facts(), rings.counts()
    rings.close()
    assert rings.rank_facts() == before
    assert rings.counts() == counts
    assert before[0]["own_waits"] != []
    assert before[0]["gpu_idle"] == {"dropped": 3, "skipped": 0, "failed": False}
    assert ring.path.exists()
