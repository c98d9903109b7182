"""All streams of a sampler: rotation, the cap, a full disk, an earlier sampler's leavings."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_io.store.reader import open_job
from slurm_io.store.schema import TABLES
from slurm_io.store.spool import MAX_BUFFERED_ROWS, SpoolWriter
from slurm_io.store.streams import StreamWriter
from tests.store.rows import LOG, STEPS, plain_row, write_stream

SECOND = 1_000_000_000


def writer_in(folder: Path, **settings: float) -> SpoolWriter:
    return SpoolWriter(folder, TABLES.values(), **settings)  # type: ignore[arg-type]


def log_clocks(folder: Path) -> list[int]:
    return open_job(folder).table("log")["ts_ns"].to_pylist()


def test_a_table_without_rows_has_no_file(tmp_path: Path) -> None:
    spool = writer_in(tmp_path)
    spool.append("log", plain_row(LOG, 1))
    spool.close()
    assert [path.name for path in tmp_path.iterdir()] == ["log.arrows"]
    assert spool.stats().rows == {"log": 1}
    assert (spool.stats().dropped_rows, spool.stats().drop_reason) == (0, None)


def test_rows_reach_the_kernel_after_flush_s_and_not_before(tmp_path: Path) -> None:
    spool = writer_in(tmp_path, flush_s=2.0)
    assert spool.flush_due(0)
    spool.append("log", plain_row(LOG, 1))
    assert not spool.flush_due(2 * SECOND - 1)
    assert (tmp_path / "log.arrows").stat().st_size == 0
    assert spool.flush_due(2 * SECOND)
    assert log_clocks(tmp_path) == [1]
    spool.close()


def test_a_burst_is_flushed_before_it_eats_memory(tmp_path: Path) -> None:
    spool = writer_in(tmp_path)
    for index in range(MAX_BUFFERED_ROWS):
        spool.append("log", plain_row(LOG, index))
    assert spool.stats().rows == {"log": MAX_BUFFERED_ROWS}
    spool.close()


def test_rows_that_come_together_are_bounded_and_counted_as_single_ones_are(tmp_path: Path) -> None:
    spool = writer_in(tmp_path)
    many = 3 * MAX_BUFFERED_ROWS + 5
    spool.extend("log", [plain_row(LOG, index) for index in range(many)])
    assert spool.stats().rows == {"log": 3 * MAX_BUFFERED_ROWS}
    spool.extend("no such table", [(1,), (2,)])
    spool.extend("log", [(1, 2), plain_row(LOG, many), (3,)])
    spool.close()
    assert spool.stats().rows == {"log": many + 1}
    assert spool.stats().drops == {"no table no such table": 2, "bad row": 2}
    assert log_clocks(tmp_path) == list(range(many + 1))


def test_rotation_by_size(tmp_path: Path) -> None:
    spool = writer_in(tmp_path, rotate_bytes=1)
    for index in range(3):
        spool.append("log", plain_row(LOG, index))
        spool.flush_due(index * 2 * SECOND)
    spool.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["log-0000.arrows", "log-0001.arrows", "log-0002.arrows"]
    assert log_clocks(tmp_path) == [0, 1, 2]


def test_rotation_by_age(tmp_path: Path) -> None:
    spool = writer_in(tmp_path, rotate_s=10)
    for index in range(8):
        spool.append("log", plain_row(LOG, index))
        spool.flush_due(index * 2 * SECOND)
    spool.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["log-0000.arrows", "log.arrows"]
    assert log_clocks(tmp_path) == list(range(8))


def test_an_earlier_samplers_stream_is_kept(tmp_path: Path) -> None:
    write_stream(tmp_path / "log.arrows", LOG, [[plain_row(LOG, 1)]], close=False)
    (tmp_path / "log-0007.parquet").touch()
    spool = writer_in(tmp_path)
    spool.append("log", plain_row(LOG, 2))
    spool.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["log-0007.parquet", "log-0008.arrows", "log.arrows"]


def test_the_cap_drops_and_counts_and_sealing_makes_room(tmp_path: Path) -> None:
    earlier = tmp_path / "log-0000.arrows"
    earlier.write_bytes(b"x" * 5000)
    spool = writer_in(tmp_path, max_bytes=5000)
    spool.append("log", plain_row(LOG, 1))
    spool.flush_all()
    assert (spool.stats().dropped_rows, spool.stats().drop_reason) == (1, "spool_max_bytes")
    assert spool.stats().rows == {}
    earlier.unlink()
    spool.append("log", plain_row(LOG, 2))
    spool.close()
    assert spool.stats().rows == {"log": 1}
    assert log_clocks(tmp_path) == [2]


def test_nonsense_rows_are_counted_never_raised(tmp_path: Path) -> None:
    spool = writer_in(tmp_path)
    spool.append("no such table", (1, 2))
    spool.append("log", (1, 2))
    spool.append("log", ("not", "a", "clock", None, None, None, None, None))
    spool.append("log", plain_row(LOG, 1))
    spool.close()
    stats = spool.stats()
    assert stats.dropped_rows == 3
    assert stats.drops == {"no table no such table": 1, "bad row": 2}
    assert stats.rows == {"log": 1}


def test_a_folder_that_vanished_is_counted_never_raised(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    spool = writer_in(folder)
    spool.append("log", plain_row(LOG, 1))
    spool.flush_due(0)
    spool.close()
    assert spool.stats().dropped_rows == 1
    assert spool.stats().drop_reason == "ENOENT"


def test_a_stream_that_cannot_be_cut_back_is_left_for_a_new_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = writer_in(tmp_path)
    spool.append("log", plain_row(LOG, 1))
    spool.flush_all()
    real = os.pwrite

    def torn(fd: int, data: bytes, offset: int) -> int:
        real(fd, data[:100], offset)
        raise OSError(5, "Input/output error")

    def refuse(fd: int, size: int) -> None:
        raise OSError(5, "Input/output error")

    spool.append("log", plain_row(LOG, 2))
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", torn)
        patch.setattr(os, "ftruncate", refuse)
        spool.flush_all()
    spool.append("log", plain_row(LOG, 3))
    spool.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log-0000.arrows", "log.arrows"]
    assert log_clocks(tmp_path) == [1, 3]
    assert spool.stats().drops == {"EIO": 1}
    assert open_job(tmp_path).nodes[tmp_path.name].damage[0]["file"] == "log-0000.arrows"


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 64 KiB."""
    mount = tmp_path / "tiny"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", mount],
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs: {done.stderr.decode().strip()}")
    yield mount
    subprocess.run(["umount", mount], check=True)


@pytest.mark.root
def test_a_full_disk_drops_rows_keeps_what_was_whole_and_goes_on(tiny_disk: Path) -> None:
    spool = writer_in(tiny_disk)
    ballast = tiny_disk / "ballast"
    ballast.write_bytes(bytes(40 * 1024))
    for index in range(2000):
        spool.append("steps", plain_row(STEPS, index))
        if index % 20 == 19:
            spool.flush_all()
    full = spool.stats()
    assert full.drops == {"ENOSPC": full.dropped_rows}
    assert 0 < full.rows["steps"] < 2000
    assert full.rows["steps"] + full.dropped_rows == 2000
    ballast.unlink()
    spool.append("steps", plain_row(STEPS, 5000))
    spool.close()
    store = open_job(tiny_disk)
    seen = store.table("steps")["ts_ns"].to_pylist()
    assert seen[-1] == 5000
    assert len(seen) == full.rows["steps"] + 1
    assert [node.damage for node in store.nodes.values()] == [[]]


def test_a_writer_holds_its_file_against_sealing(tmp_path: Path) -> None:
    from slurm_io.store.seal import seal_spool

    writer = StreamWriter(tmp_path / "log.arrows", LOG)
    writer.append(plain_row(LOG, 1))
    writer.flush()
    assert seal_spool(tmp_path).live == ["log.arrows"]
    writer.append(plain_row(LOG, 2))
    writer.close()
    assert seal_spool(tmp_path).sealed == ["log-0000.parquet"]
    assert log_clocks(tmp_path) == [1, 2]
