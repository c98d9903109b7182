"""Rings as the hook writes them, and as somebody who wants to hurt the sampler writes them."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.sampler.ring_format import MAX_RING_BYTES
from slurm_io.sampler.rings import Rings
from slurm_io.store.schema import TABLES
from tests.sampler.packed_rows import drained_steps
from tests.sampler.ring_maker import RingMaker, starttime_of

OFFSET_NS = 1_000_000


def lives(pid: int, starttime: int, pid_ns: int | None) -> int | None:
    """As Discovery.find_pid, for processes of this namespace."""
    try:
        return pid if starttime_of(pid) == starttime else None
    except OSError:
        return None


def rings_of(folder: Path, uid: int | None = None) -> Rings:
    return Rings(folder, os.getuid() if uid is None else uid, OFFSET_NS, lives)


def named(table: str, rows: list[tuple[object, ...]]) -> list[dict[str, Any]]:
    columns = TABLES[table].column_names()
    return [dict(zip(columns, row, strict=True)) for row in rows]


@pytest.fixture
def dead() -> tuple[int, int]:
    """pid and starttime of a process that has ended."""
    process = subprocess.Popen(["sleep", "60"])
    starttime = starttime_of(process.pid)
    process.kill()
    process.wait()
    return process.pid, starttime


def test_a_batch_becomes_a_row_of_steps(tmp_path: Path) -> None:
    ring = RingMaker(tmp_path, greeting={"rank": 5})
    ring.batch(1000, 4000, flags=1 | 2 | 4, loader=2, epoch=3, index=7, step=9, last_step_ns=900)
    rings = rings_of(tmp_path)
    steps, events = rings.drain()
    assert events == []
    assert named("steps", steps) == [
        {
            "ts_ns": 1000 + OFFSET_NS, "mono_ns": 1000, "pid": os.getpid(), "rank": 5, "loader": 2,
            "epoch": 3, "batch": 7, "step": 9, "last_step_mono_ns": 900, "data_wait_ns": 3000,
            "gpu_idle_ns": None, "batch_bytes": None, "padding_share": None, "first": True,
            "workers": True, "cuda": True,
        }
    ]  # fmt: skip
    assert rings.ranks() == {os.getpid(): 5}
    assert rings.drain() == ([], [])


@pytest.mark.parametrize("text_first", [True, False])
def test_an_event_takes_its_text_from_parts_before_or_after_it(
    tmp_path: Path, text_first: bool
) -> None:
    ring = RingMaker(tmp_path)
    text = json.dumps({"path": "/ckpt/" + "x" * 100, "why": "end"}).encode()
    n_parts = -(-len(text) // 40)
    if text_first:
        ring.text(4, text)
    ring.event(4, 100, 300, flags=1, parts=n_parts, text_id=4, bytes=77, step=6)
    if not text_first:
        ring.text(4, text)
    _steps, events = rings_of(tmp_path).drain()
    row = named("events", events)[0]
    assert (row["kind"], row["path"], json.loads(row["detail"])) == (
        "ckpt_save", "/ckpt/" + "x" * 100, {"why": "end"},
    )  # fmt: skip
    assert (row["mono_ns"], row["end_mono_ns"], row["bytes"], row["step"]) == (100, 300, 77, 6)
    assert (row["blocking"], row["failed"]) == (True, False)


def test_an_event_whose_text_never_comes_is_written_without_it(tmp_path: Path) -> None:
    RingMaker(tmp_path).event(7, parts=3, text_id=1)
    rings = rings_of(tmp_path)
    drained = [rings.drain()[1] for _ in range(6)]
    rows = named("events", [row for events in drained for row in events])
    assert [(row["kind"], row["path"]) for row in rows] == [("load", None)]


def test_loaders_are_known_from_their_event(tmp_path: Path) -> None:
    ring = RingMaker(tmp_path)
    ring.event(1, parts=ring.text(1, b'{"id": 0, "num_workers": 4}'), text_id=1)
    rings = rings_of(tmp_path)
    rings.drain()
    assert rings.loader_facts() == [{"pid": os.getpid(), "rank": 0, "id": 0, "num_workers": 4}]


def test_overwritten_records_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    ring = RingMaker(tmp_path, n_records=8)
    rings = rings_of(tmp_path)
    ring.batch(index=0)
    rings.drain()
    for index in range(1, 21):
        ring.batch(index=index)
    steps, _ = rings.drain()
    assert [row["batch"] for row in named("steps", steps)] == list(range(13, 21))
    assert rings.counts() == {"rings": 1, "records": 9, "overrun": 12, "refused": 0}


def test_a_record_that_is_being_written_is_read_once_it_is_whole(tmp_path: Path) -> None:
    ring = RingMaker(tmp_path)
    ring.batch(index=0)
    with ring.path.open("r+b") as file:
        file.seek(4096 + 64 - 8)
        last = file.read(8)
        file.seek(4096 + 64 - 8)
        file.write(bytes(8))
        file.flush()
        rings = rings_of(tmp_path)
        assert rings.drain() == ([], [])
        file.seek(4096 + 64 - 8)
        file.write(last)
        file.flush()
        assert len(rings.drain()[0]) == 1


def test_a_number_taken_and_never_written_does_not_hold_up_the_rest(tmp_path: Path) -> None:
    """An exception can land between the two; the reader gives it up after three drains."""
    maker = RingMaker(tmp_path)
    rings = rings_of(tmp_path)
    maker.batch(index=0)
    maker.written += 1
    maker.batch(index=2)
    seen = [row[6] for _ in range(5) for row in rings.drain()[0]]
    assert seen == [0, 2]
    assert rings.counts()["overrun"] == 1


def test_a_prefetch_threads_wait_is_no_wait_of_training(tmp_path: Path) -> None:
    maker = RingMaker(tmp_path)
    maker.batch(flags=16)
    maker.batch(flags=0)
    assert len(rings_of(tmp_path).drain()[0]) == 1


def test_phase_is_what_the_header_says_now(tmp_path: Path) -> None:
    ring = RingMaker(tmp_path)
    rings = rings_of(tmp_path)
    rings.drain()
    ring.phase(1, 6)
    assert rings.phase_of(os.getpid()) == ("data_wait", 6)
    ring.phase(2, 6)
    assert rings.phase_of(os.getpid()) == ("ckpt", None)
    ring.phase(99)
    assert rings.phase_of(os.getpid()) == ("none", None)
    assert rings.phase_of(1) == ("none", None)


def test_the_ring_of_an_ended_process_is_read_to_its_end_and_removed(
    tmp_path: Path, dead: tuple[int, int]
) -> None:
    ring = RingMaker(tmp_path, *dead)
    ring.batch()
    ring.event(9, parts=2, text_id=1)
    ring.state(2)
    rings = rings_of(tmp_path)
    drained = [rings.drain() for _ in range(8)]
    assert len(drained[0][0]) == 1
    assert sum(len(events) for _, events in drained) == 1
    assert not ring.path.exists()
    assert rings.rank_facts()[0]["pid"] == dead[0]
    assert rings.counts()["records"] == 2


def test_a_ring_from_another_pid_namespace_stays_until_it_is_closed(
    tmp_path: Path, dead: tuple[int, int]
) -> None:
    ring = RingMaker(tmp_path, *dead)
    ring.batch()
    rings = rings_of(tmp_path)
    for _ in range(6):
        rings.drain()
    assert ring.path.exists()


def test_without_a_rank_the_slurm_procid_counts(tmp_path: Path) -> None:
    ring = RingMaker(tmp_path, greeting={"rank": None, "slurm_procid": 12})
    ring.batch()
    rings = rings_of(tmp_path)
    assert named("steps", rings.drain()[0])[0]["rank"] == 12


# Hostile folders. Each of these must cost nothing but a count.


def refused(folder: Path) -> int:
    rings = rings_of(folder)
    for _ in range(4):
        assert rings.drain() == ([], [])
    count = rings.counts()["refused"]
    rings.close()
    return count


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    target = RingMaker(outside)
    target.batch()
    folder = tmp_path / "ring"
    folder.mkdir()
    (folder / target.path.name).symlink_to(target.path)
    assert refused(folder) == 1
    assert target.path.exists()


def test_a_fifo_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ring-1-1")
    assert refused(tmp_path) == 1


def test_a_folder_is_no_ring(tmp_path: Path) -> None:
    (tmp_path / "ring-1-1").mkdir()
    assert refused(tmp_path) == 1


def test_a_giant_is_refused_by_size_alone(tmp_path: Path) -> None:
    ring = RingMaker(tmp_path)
    os.truncate(ring.path, MAX_RING_BYTES + 64)
    assert refused(tmp_path) == 1


@pytest.mark.parametrize("n_records", [0, 3, 2**31])
def test_a_header_that_lies_about_the_size_is_refused(tmp_path: Path, n_records: int) -> None:
    ring = RingMaker(tmp_path)
    with ring.path.open("r+b") as file:
        file.seek(16)
        file.write(struct.pack("<I", n_records))
    assert refused(tmp_path) == 1


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_a_ring_of_another_user_is_refused(tmp_path: Path) -> None:
    ring = RingMaker(tmp_path)
    os.chown(ring.path, 65534, 65534)
    assert refused(tmp_path) == 1


def test_a_ring_of_a_number_no_process_can_have_is_refused_and_the_others_are_read(
    tmp_path: Path,
) -> None:
    RingMaker(tmp_path, 2**31, 9).batch(1000, 4000)
    RingMaker(tmp_path).batch(1000, 4000)
    rings = rings_of(tmp_path)
    drained = [row for _ in range(3) for row in drained_steps(rings)]
    assert [row[TABLES["steps"].column_names().index("pid")] for row in drained] == [os.getpid()]
    assert rings.counts()["refused"] == 1


def test_names_that_are_no_ring_names_are_not_even_opened(tmp_path: Path) -> None:
    for name in (
        "ring-1",
        "ring-1-2-3",
        "ring-0-1",
        "ring--1-1",
        "ring-1-1.tmp",
        "ring-1-1.0",
        "xring-1-1",
    ):
        (tmp_path / name).write_bytes(b"x")
    assert refused(tmp_path) == 0


def test_the_folder_itself_may_not_be_a_link(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    RingMaker(real).batch()
    (tmp_path / "ring").symlink_to(real)
    assert rings_of(tmp_path / "ring").drain() == ([], [])


def test_at_most_1024_rings_are_opened(tmp_path: Path) -> None:
    first = RingMaker(tmp_path, 1_000_000, 1, n_records=1)
    content = first.path.read_bytes()
    for pid in range(1_000_001, 1_001_100):
        (tmp_path / f"ring-{pid}-1").write_bytes(content)
    rings = rings_of(tmp_path)
    rings.drain()
    assert rings.counts()["rings"] == 1024
    rings.close()


def test_a_ring_that_shrinks_under_the_reader_gives_what_is_left(tmp_path: Path) -> None:
    ring = RingMaker(tmp_path)
    for index in range(20):
        ring.batch(index=index)
    rings = rings_of(tmp_path)
    assert len(drained_steps(rings)) == 20
    for index in range(20, 30):
        ring.batch(index=index)
    os.truncate(ring.path, 4096 + 64 * 25)
    assert len(drained_steps(rings)) == 5
    os.truncate(ring.path, 0)
    assert rings.drain() == ([], [])
    assert rings.phase_of(os.getpid()) == ("none", None)


def test_endless_text_parts_stay_bounded(tmp_path: Path) -> None:
    ring = RingMaker(tmp_path, n_records=4096)
    for text_id in range(200):
        for part in range(20):
            ring.part(text_id, part, b"x" * 40)
    ring.event(4, parts=65535, text_id=199)
    rings = rings_of(tmp_path)
    events = named("events", rings.drain()[1])
    assert [(row["kind"], row["detail"]) for row in events] == [("ckpt_save", None)]
    kept = rings._writers[0].rows._texts
    assert sum(len(parts) for parts in kept.values()) <= 64 * 16


def test_endless_events_without_their_text_stay_bounded(tmp_path: Path) -> None:
    ring = RingMaker(tmp_path, n_records=1024)
    for _ in range(1000):
        ring.event(4, parts=1, text_id=0)
    rings = rings_of(tmp_path)
    assert len(rings.drain()[1]) >= 1000 - 64
    assert len(rings._writers[0].rows._waiting) <= 64


@pytest.mark.parametrize("head", [0, 2**64 - 1, 1 << 40])
def test_the_announced_head_is_a_hint_only(tmp_path: Path, head: int) -> None:
    ring = RingMaker(tmp_path)
    for index in range(10):
        ring.batch(index=index)
    with ring.path.open("r+b") as file:
        file.seek(48)
        file.write(struct.pack("<Q", head))
    rings = rings_of(tmp_path)
    found = sum(len(drained_steps(rings)) for _ in range(12))
    assert found == 10


@pytest.mark.parametrize(
    "fields",
    [
        {"epoch": 2**32 - 1}, {"index": 2**31}, {"last_step_ns": 2**64 - 1},
        {"start_ns": 5, "end_ns": 4}, {"start_ns": 0, "end_ns": 2**64 - 1},
    ],
)  # fmt: skip
def test_numbers_no_column_can_hold_are_refused(tmp_path: Path, fields: dict[str, int]) -> None:
    RingMaker(tmp_path).batch(**fields)
    rings = rings_of(tmp_path)
    assert rings.drain() == ([], [])
    assert rings.counts()["refused"] == 1


@pytest.mark.parametrize(
    "text", [b"[" * 640, b"\xff\xfe{", b'{"path": ["a"]}', b'{"path": "a\\u0000\\ud800b"}', b"7"]
)
def test_text_that_is_no_decent_json_costs_the_text_only(tmp_path: Path, text: bytes) -> None:
    ring = RingMaker(tmp_path)
    ring.event(4, parts=ring.text(1, text), text_id=1)
    row = named("events", rings_of(tmp_path).drain()[1])[0]
    assert row["kind"] == "ckpt_save"
    assert row["path"] in (None, "a??b")
    json.dumps(row).encode()


def _ring_bytes() -> st.SearchStrategy[bytes]:
    """A valid header with wild records: numbers mostly right, so that the fields are looked at."""

    def build(bodies: list[bytes], numbers: list[int]) -> bytes:
        records = bytearray(64 * 16)
        for slot, (body, number) in enumerate(zip(bodies, numbers, strict=False)):
            stamp = struct.pack("<Q", number % 2**64)
            records[64 * slot : 64 * slot + 64] = stamp + body + stamp
        return bytes(records)

    body = st.binary(min_size=48, max_size=48)
    kinds = st.tuples(st.sampled_from([1, 2, 3, 4]), body).map(
        lambda pair: bytes([pair[0]]) + pair[1][1:]
    )
    number = st.integers(0, 15).map(lambda n: n + 1) | st.integers(0, 2**64 - 1)
    ordered = st.just(list(range(1, 17))) | st.lists(number, max_size=16)
    return st.builds(build, st.lists(kinds, min_size=1, max_size=16), ordered)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@given(header=st.binary(max_size=600), records=_ring_bytes(), keep=st.booleans())
def test_no_bytes_of_a_ring_raise(folder: Path, header: bytes, records: bytes, keep: bool) -> None:
    for old in folder.iterdir():
        old.unlink()
    ring = RingMaker(folder, n_records=16)
    with ring.path.open("r+b") as file:
        if not keep:
            file.write(header)
        file.seek(4096)
        file.write(records)
    ring.close()
    rings = rings_of(folder)
    for _ in range(5):
        steps, events = rings.drain()
        _fits("steps", steps)
        _fits("events", events)
        _fits("gpu_waits", rings.take_gpu_waits())
    json.dumps(rings.rank_facts())
    json.dumps(rings.loader_facts())
    rings.close()


def _fits(table: str, rows: list[tuple[object, ...]]) -> None:
    """Every cell is one that its column can hold."""
    limits = {"int32": 2**31, "int64": 2**63}
    for row in rows:
        for column, cell in zip(TABLES[table].columns, row, strict=True):
            if cell is None:
                assert column.nullable, column.name
            elif isinstance(cell, int) and column.type in limits:
                assert -limits[column.type] <= cell < limits[column.type], (column.name, cell)
            elif isinstance(cell, str):
                cell.encode()


def test_a_ring_that_cannot_be_removed_is_not_read_twice(
    tmp_path: Path, dead: tuple[int, int]
) -> None:
    ring = RingMaker(tmp_path, *dead)
    ring.batch()
    ring.state(2)
    rings = rings_of(tmp_path)
    rings.drain()
    copy = ring.path.read_bytes()
    ring.path.unlink()
    ring.path.write_bytes(copy)  # another file by the same name: not ours to remove
    assert sum(len(drained_steps(rings)) for _ in range(6)) == 0
    assert ring.path.exists()
