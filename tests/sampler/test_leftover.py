"""What rings hold after their sampler was killed: every row once, whatever the kill left behind."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_io.errors import StoreError
from slurm_io.sampler import leftover
from slurm_io.sampler.leftover import note_unread, take_over
from slurm_io.sampler.leftover_rings import MOST_RECORDS
from slurm_io.store.seal import alone_in, seal_spool
from tests.sampler.dead_sampler import OFFSET_NS, DeadSampler, batches, meta_of, rows_of, train
from tests.sampler.ring_maker import RingMaker, starttime_of
from tests.sampler.running_sampler import make_spool


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return make_spool(tmp_path, None)


@pytest.fixture
def rings(spool: Path, tmp_path: Path) -> Path:
    return tmp_path / "rings"


def died(spool: Path, rings: Path) -> DeadSampler:
    return DeadSampler(spool, rings, os.getuid())


def test_what_the_sampler_had_not_read_is_added_once(spool: Path, rings: Path) -> None:
    ring = RingMaker(rings)
    train(ring, 0, 20)
    died(spool, rings).read()
    train(ring, 20, 50)
    for _ in range(3):
        take_over(spool)
        assert batches(spool) == list(range(50))
    first, *_, last = rows_of(spool, "steps")
    assert last == {
        **first, "batch": 49, "step": 49, "mono_ns": 500_000_000,
        "ts_ns": 500_000_000 + OFFSET_NS,
    }  # fmt: skip
    told = meta_of(spool)["leftover"]
    assert told["until_ts_ns"] == 501_000_000 + OFFSET_NS
    assert (told["lost"], told["unread"], told["rings"]) == ([], None, 1)


def test_all_three_tables_are_filled_up(spool: Path, rings: Path) -> None:
    ring = RingMaker(rings, greeting={"rank": 3})
    text = b'{"path": "/ckpt/a"}'
    train(ring, 0, 3)
    ring.event(4, 100, 300, parts=ring.text(1, text), text_id=1, step=2)
    gpu_wait(ring, 0, idle_ns=5)
    died(spool, rings).read()
    ring.event(4, 500, 900, parts=ring.text(2, text), text_id=2, step=3)
    ring.event(1, 5, 6, parts=ring.text(3, b'{"id": 1, "num_workers": 2}'), text_id=3)
    gpu_wait(ring, 1, idle_ns=7)
    take_over(spool)
    take_over(spool)
    saves = [row for row in rows_of(spool, "events") if row["kind"] == "ckpt_save"]
    assert [(row["mono_ns"], row["path"], row["rank"]) for row in saves] == [
        (100, "/ckpt/a", 3), (500, "/ckpt/a", 3),
    ]  # fmt: skip
    assert [row["gpu_idle_ns"] for row in rows_of(spool, "gpu_waits")] == [5, 7]
    assert meta_of(spool)["loaders"] == [{"pid": ring.pid, "rank": 3, "id": 1, "num_workers": 2}]


def gpu_wait(ring: RingMaker, index: int, idle_ns: int) -> None:
    number, start_ns = ring.written + 1, (index + 1) * 10_000_000
    layout = struct.Struct("<QBBHIQQIIQqQ")
    end_ns = start_ns + 1_000_000
    ring.raw(
        layout.pack(number, 4, 4, 0, 0, start_ns, end_ns, index, 0, 0, idle_ns, number)
    )  # fmt: skip


def test_an_event_that_had_no_text_yet_is_not_written_a_second_time(
    spool: Path, rings: Path
) -> None:
    ring = RingMaker(rings)
    ring.event(7, 100, 300, parts=1, text_id=9)
    sampler = died(spool, rings)
    for _ in range(6):
        sampler.read()
    ring.part(9, 0, b'{"path": "/late"}')
    take_over(spool)
    assert [row["path"] for row in rows_of(spool, "events")] == [None]


def test_a_torn_batch_is_read_from_the_ring_again(spool: Path, rings: Path) -> None:
    """The kill cut the last batch in the middle, at every length that it can."""
    ring = RingMaker(rings)
    train(ring, 0, 10)
    sampler = died(spool, rings)
    sampler.read()
    whole_bytes = (spool / "steps.arrows").stat().st_size
    train(ring, 10, 20)
    sampler.read()
    stream = (spool / "steps.arrows").read_bytes()
    for length in {0, 1, 100, whole_bytes - 1, whole_bytes, whole_bytes + 9, len(stream) - 1}:
        for part in spool.glob("steps*"):
            part.unlink()
        (spool / "steps.arrows").write_bytes(stream[:length])
        take_over(spool)
        assert batches(spool) == list(range(20)), length


def test_sealed_parts_and_what_an_earlier_reading_wrote_are_known(spool: Path, rings: Path) -> None:
    ring = RingMaker(rings)
    train(ring, 0, 10)
    died(spool, rings).read()
    assert seal_spool(spool).failed == {}
    train(ring, 10, 20)
    take_over(spool)
    train(ring, 20, 30)
    take_over(spool)
    assert batches(spool) == list(range(30))


def test_after_a_restarted_sampler_with_another_clock(spool: Path, rings: Path) -> None:
    """Its rows bear another UTC; they are the same steps."""
    ring = RingMaker(rings)
    train(ring, 0, 10)
    died(spool, rings).read()
    clock = {"realtime_minus_monotonic_ns": OFFSET_NS + 7_000_000_000}
    (spool / "meta.json").write_text(json.dumps({"schema": 1, "clock": clock, "clean_end": False}))
    train(ring, 10, 20)
    take_over(spool)
    assert batches(spool) == list(range(20))
    assert rows_of(spool, "steps")[-1]["ts_ns"] == 200_000_000 + OFFSET_NS + 7_000_000_000


def test_a_ring_that_was_written_round_says_what_is_missing(spool: Path, rings: Path) -> None:
    ring = RingMaker(rings, n_records=64, greeting={"rank": 5})
    train(ring, 0, 30)
    died(spool, rings).read()
    train(ring, 30, 200)
    for _ in range(2):  # the second finds the hole closed, and must say the same
        take_over(spool)
        assert batches(spool) == [*range(30), *range(136, 200)]
        (lost,) = meta_of(spool)["leftover"]["lost"]
        assert (lost["rank"], lost["batches"]) == (5, 106)
        assert lost["from_ts_ns"] == 301_000_000 + OFFSET_NS
        assert lost["to_ts_ns"] == 1_370_000_000 + OFFSET_NS


def test_a_ring_written_round_of_which_all_was_read_misses_nothing(
    spool: Path, rings: Path
) -> None:
    ring = RingMaker(rings, n_records=64)
    sampler = died(spool, rings)
    for first in range(0, 200, 50):
        train(ring, first, first + 50)
        sampler.read()
    train(ring, 200, 220)
    take_over(spool)
    assert batches(spool) == list(range(220))
    assert meta_of(spool)["leftover"]["lost"] == []


def test_an_epoch_that_begins_with_the_oldest_record_hides_nothing(
    spool: Path, rings: Path
) -> None:
    """The batch before it is of another epoch, and known all the same."""
    ring = RingMaker(rings, n_records=64)
    sampler = died(spool, rings)
    train(ring, 0, 10)
    sampler.read()
    train(ring, 0, 63, epoch=1)
    sampler.read()
    train(ring, 63, 64, epoch=1)
    take_over(spool)
    assert batches(spool) == [*range(10), *range(64)]
    assert meta_of(spool)["leftover"]["lost"] == []


@pytest.mark.parametrize("torn", [0, 9, 63])
def test_a_process_killed_while_it_wrote_holds_up_nothing(
    spool: Path, rings: Path, torn: int
) -> None:
    """Its last record is half there, over the oldest one."""
    ring = RingMaker(rings, n_records=64)
    train(ring, 0, 64 + torn)
    with ring.path.open("r+b") as file:
        file.seek(4096 + 64 * torn)
        file.write(struct.pack("<Q", 64 + torn + 1))
    take_over(spool)
    assert batches(spool) == list(range(torn + 1, 64 + torn))
    assert meta_of(spool)["leftover"]["unread"] is None


def test_a_number_taken_and_never_written_holds_up_nothing(spool: Path, rings: Path) -> None:
    ring = RingMaker(rings)
    train(ring, 0, 5)
    ring.raw(bytes(64))
    train(ring, 5, 9)
    take_over(spool)
    assert batches(spool) == list(range(9))


def test_a_whole_epoch_that_was_overwritten_is_told_by_its_time(spool: Path, rings: Path) -> None:
    """No index of a batch shows it."""
    ring = RingMaker(rings, n_records=64)
    train(ring, 0, 30)
    died(spool, rings).read()
    train(ring, 0, 70, epoch=1)
    train(ring, 0, 64, epoch=2)
    take_over(spool)
    (lost,) = meta_of(spool)["leftover"]["lost"]
    assert lost["batches"] is None
    assert lost["to_ts_ns"] - lost["from_ts_ns"] > 1_000_000_000


def test_a_sampler_that_ended_by_itself_left_nothing(spool: Path, rings: Path) -> None:
    ring = RingMaker(rings)
    sampler = died(spool, rings)
    sampler.write_meta(clean_end=True)
    train(ring, 0, 5)
    take_over(spool)
    assert not list(spool.glob("*.arrows"))
    assert "leftover" not in meta_of(spool)


def test_rings_that_are_another_recordings_are_left_to_it(spool: Path, rings: Path) -> None:
    spec = json.loads((spool / "sampler.json").read_text())
    (spool / "sampler.json").write_text(json.dumps({**spec, "reads_along": True}))
    train(RingMaker(rings), 0, 5)
    take_over(spool)
    assert not list(spool.glob("*.arrows"))


def test_a_sampler_that_never_wrote_anything(spool: Path, rings: Path) -> None:
    """It died among its imports; the rings alone say when it was."""
    ring = RingMaker(rings, greeting={"rank": 1})
    train(ring, 0, 5)
    take_over(spool)
    assert batches(spool) == list(range(5))
    meta = meta_of(spool)
    assert (meta["clean_end"], meta["node"]) == (False, "here")
    assert "wrote nothing" in meta["end_reason"]
    assert meta["leftover"]["lost"] == []
    assert [(one["rank"], one["pid"]) for one in meta["ranks"]] == [(1, ring.pid)]


def test_what_is_known_of_a_rank_grows_and_is_not_doubled(spool: Path, rings: Path) -> None:
    ring = RingMaker(rings, greeting={"rank": 0})
    train(ring, 0, 10)
    sampler = died(spool, rings)
    sampler.read()
    told = {"rank": 0, "pid": 1, "starttime": 2, "told_by": "environ"}
    sampler.write_meta(ranks=[*sampler.rings.rank_facts(), told])
    train(ring, 10, 20)
    take_over(spool)
    (rank,) = meta_of(spool)["ranks"]
    assert (rank["first_ts_ns"], rank["last_ts_ns"]) == (
        10_000_000 + OFFSET_NS, 201_000_000 + OFFSET_NS,
    )  # fmt: skip


def test_processes_of_containers_keep_the_pids_that_they_have_outside(
    spool: Path, rings: Path
) -> None:
    """Two containers that count alike, and whose ranks started in the same tick."""
    made = []
    for rank, namespace in enumerate((4026532001, 4026532002)):
        ring = RingMaker(rings, pid=7, starttime=991, greeting={"rank": rank})
        ring.path.rename(rings / f"ring-7-991.{namespace}")
        made.append(ring)
    outside = {4026532001: 4711, 4026532002: 4712}
    sampler = DeadSampler(spool, rings, os.getuid(), lambda _pid, _start, ns: outside[ns or 0])
    for ring in made:
        train(ring, 0, 5)
    sampler.read()
    sampler.write_meta()
    for ring in made:
        train(ring, 5, 9)
    take_over(spool)
    rows = rows_of(spool, "steps")
    assert {(row["rank"], row["pid"]) for row in rows} == {(0, 4711), (1, 4712)}
    assert sorted(batches(spool)) == sorted([*range(9)] * 2)


def test_many_rings_come_in_groups(
    spool: Path, rings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftover, "MOST_ROWS_AT_ONCE", 25)
    made = [RingMaker(rings, pid, 5, greeting={"rank": pid}) for pid in range(2, 9)]
    for ring in made:
        train(ring, 0, 10)
    died(spool, rings).read()
    for ring in made:
        train(ring, 10, 20)
    take_over(spool)
    rows = rows_of(spool, "steps")
    assert sorted((row["rank"], row["batch"]) for row in rows) == [
        (pid, index) for pid in range(2, 9) for index in range(20)
    ]
    assert sorted(one["rank"] for one in meta_of(spool)["ranks"]) == list(range(2, 9))


def test_a_living_sampler_is_not_written_beside(spool: Path, rings: Path) -> None:
    train(RingMaker(rings), 0, 5)
    living = {"pid": os.getpid(), "starttime": starttime_of(os.getpid())}
    (spool / "sampler.pid").write_text(json.dumps(living))
    with pytest.raises(StoreError, match="its sampler still lives"):
        take_over(spool)
    assert not list(spool.glob("*.arrows"))


def test_two_readings_do_not_meet(
    spool: Path, rings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finisher was killed, and its child reads on while the next finisher comes."""
    monkeypatch.setattr(leftover, "_OTHER_READER_S", 0.0)
    train(RingMaker(rings), 0, 5)
    with alone_in(spool, 0.0), pytest.raises(StoreError, match="by another process"):
        take_over(spool)
    assert not list(spool.glob("*.arrows"))


def test_a_part_that_cannot_be_read_lets_nothing_be_doubled(spool: Path, rings: Path) -> None:
    train(RingMaker(rings), 0, 5)
    died(spool, rings)
    (spool / "steps-0000.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(StoreError, match="steps-0000"):
        take_over(spool)
    assert not list(spool.glob("*.arrows"))


@pytest.mark.parametrize("trap", ["link", "fifo", "folder", "zeros", "oversized", "pid", "mad"])
def test_a_trap_costs_itself_only(spool: Path, rings: Path, trap: str) -> None:
    set_trap(rings / "ring-9-9", trap)
    train(RingMaker(rings), 0, 5)
    take_over(spool)
    assert batches(spool) == list(range(5))
    told = meta_of(spool)["leftover"]
    assert told["refused"] + told["garbage"] >= 1


def test_a_ring_of_another_user_is_no_ring_of_the_job(spool: Path, rings: Path) -> None:
    spec: dict[str, Any] = json.loads((spool / "sampler.json").read_text())
    spec["job"]["uid"] = os.getuid() + 1
    (spool / "sampler.json").write_text(json.dumps(spec))
    train(RingMaker(rings), 0, 5)
    take_over(spool)
    assert meta_of(spool)["leftover"]["refused"] == 1
    assert not list(spool.glob("*.arrows"))


def set_trap(path: Path, trap: str) -> None:
    secret = path.parent.parent / "secret"
    if trap == "link":
        train(RingMaker(path.parent, 9, 8), 0, 9)
        (path.parent / "ring-9-8").rename(secret)
        path.symlink_to(secret)
    elif trap == "fifo":
        os.mkfifo(path)
    elif trap == "folder":
        path.mkdir()
    elif trap == "zeros":
        path.write_bytes(bytes(4096 + 64 * 16))
    elif trap == "oversized":
        ring = RingMaker(path.parent, 9, 9, n_records=2 * MOST_RECORDS)
        train(ring, 0, 3)
    elif trap == "pid":
        train(RingMaker(path.parent, 2**31, 9), 0, 20)
    elif trap == "mad":
        ring = RingMaker(path.parent, 9, 9)
        for number in range(1, 9):
            ring.raw(bytes([number, *bytes(7), 99, *bytes(47), number, *bytes(7)]))


def test_time_that_is_up_is_told_and_what_was_read_stays(spool: Path, rings: Path) -> None:
    train(RingMaker(rings), 0, 5)
    died(spool, rings)
    take_over(spool, limit_s=0.0)
    assert "time was up" in meta_of(spool)["leftover"]["unread"]
    take_over(spool)
    assert meta_of(spool)["leftover"]["unread"] is None
    assert batches(spool) == list(range(5))


def test_rings_that_are_gone_are_told_once(spool: Path, rings: Path) -> None:
    died(spool, rings)
    note_unread(spool, "the folder was gone")
    assert meta_of(spool)["leftover"] == {"unread": "the folder was gone"}
    train(RingMaker(rings), 0, 5)
    take_over(spool)
    note_unread(spool, "the folder was gone")
    assert meta_of(spool)["leftover"]["unread"] is None


def test_a_full_spool_says_what_it_dropped(spool: Path, rings: Path) -> None:
    spec: dict[str, Any] = json.loads((spool / "sampler.json").read_text())
    (spool / "sampler.json").write_text(json.dumps({**spec, "spool_max_bytes": 0}))
    train(RingMaker(rings), 0, 5)
    died(spool, rings)
    take_over(spool)
    told = meta_of(spool)["leftover"]
    assert (told["dropped_rows"], told["drop_reason"]) == (5, "spool_max_bytes")


def test_as_a_process_of_its_own(spool: Path, rings: Path) -> None:
    train(RingMaker(rings), 0, 5)
    command = [sys.executable, "-m", "slurm_io.sampler.leftover"]
    done = subprocess.run([*command, str(spool)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert batches(spool) == list(range(5))
    absent = subprocess.run([*command, "/nowhere"], capture_output=True, text=True, check=False)
    assert (absent.returncode, absent.stderr.count("\n")) == (3, 1)
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
