"""Rings that another recording takes: read from now on, of members only, and left as they are."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from slurm_io.sampler.rings import Rings
from tests.sampler.ring_maker import RingMaker
from tests.sampler.test_rings import OFFSET_NS, lives, named

NOW_NS = 5_000


def along(folder: Path) -> Rings:
    return Rings(folder, os.getuid(), OFFSET_NS, lives, along_from_ns=NOW_NS)


def test_what_had_ended_before_is_left_out_and_the_loader_is_still_known(tmp_path: Path) -> None:
    ring = RingMaker(tmp_path, greeting={"rank": 5})
    ring.text(1, b'{"id": 3, "num_workers": 4}')
    ring.event(1, 100, 100, text_id=1, parts=1)
    ring.batch(1000, 2000, loader=3)
    ring.batch(4000, 6000, loader=3)
    ring.batch(6500, 7000, loader=3)
    rings = along(tmp_path)
    steps, events = rings.drain()
    assert [row["data_wait_ns"] for row in named("steps", steps)] == [2000, 500]
    assert events == []
    assert rings.loader_facts() == [
        {"pid": ring.pid, "rank": 5, "id": 3, "num_workers": 4},
    ]
    assert rings.rank_facts()[0]["first_ts_ns"] == 4000 + OFFSET_NS


def test_a_finished_ring_stays_where_it_is_and_is_read_once(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "60"])
    ring = RingMaker(tmp_path, pid=process.pid)
    ring.batch(6000, 7000)
    rings = along(tmp_path)
    assert len(rings.drain()[0]) == 1
    process.kill()
    process.wait()
    assert [len(rings.drain()[0]) for _ in range(6)] == [0] * 6
    assert ring.path.exists()
    assert len(rings.rank_facts()) == 1


def test_rings_of_others_in_the_folder_are_not_taken(tmp_path: Path) -> None:
    mine, theirs = RingMaker(tmp_path), RingMaker(tmp_path, pid=1, starttime=1)
    mine.batch(6000, 7000)
    theirs.batch(6000, 7000)
    rings = Rings(
        tmp_path,
        os.getuid(),
        OFFSET_NS,
        lambda pid, starttime, pid_ns=None: pid if pid == os.getpid() else None,
        along_from_ns=NOW_NS,
    )
    steps, _ = rings.drain()
    assert [row["pid"] for row in named("steps", steps)] == [os.getpid()]
