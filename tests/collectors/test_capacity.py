"""The capacity collector asks in a child and never waits for a mount that hangs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_io.collectors import capacity as module
from slurm_io.collectors.base import Availability
from slurm_io.collectors.capacity import CapacityOfMounts
from slurm_io.filesystems.capacity import capacity_of
from tests.collectors.fake_host import context, rows_at, tick
from tests.labs.slowfs import SlowFs, fuse_missing


def collect_until(collector: CapacityOfMounts, second: float, count: int) -> list[dict[str, Any]]:
    """Ticks within a second until `count` rows came (or ten real seconds passed)."""
    rows: list[dict[str, Any]] = []
    end_s = time.monotonic() + 10
    while len(rows) < count and time.monotonic() < end_s:
        rows += rows_at(collector, second)
        time.sleep(0.005)
    return rows


def wait_until_free(collector: CapacityOfMounts, mount: str) -> None:
    """Until the child left behind at `mount` has died."""
    end_s = time.monotonic() + 5
    while collector._probes._stuck[mount].still_stuck():
        assert time.monotonic() < end_s
        time.sleep(0.005)


@pytest.fixture
def real(tmp_path: Path) -> Iterator[CapacityOfMounts]:
    collector = CapacityOfMounts()
    collector.open(context(Path("/"), capacity_mounts=["/", "/dev/shm"]))
    yield collector
    collector.close()


def test_numbers_are_those_of_statvfs(real: CapacityOfMounts) -> None:
    assert rows_at(real, 0) == []
    rows = {row["mount"]: row for row in collect_until(real, 1, 2)}
    truth = os.statvfs("/dev/shm")
    row = rows["/dev/shm"]
    assert row["fstype"] == "tmpfs"
    assert row["size_bytes"] == truth.f_blocks * truth.f_frsize
    assert row["inodes"] == truth.f_files
    assert 0 <= row["used_bytes"] <= row["size_bytes"]
    # The row bears the moment of the question.
    assert row["mono_ns"] == tick(0).mono_ns


def test_asks_again_after_its_period_only(real: CapacityOfMounts) -> None:
    rows_at(real, 0)
    assert len(collect_until(real, 1, 2)) == 2
    assert [rows_at(real, second) for second in (2, 15, 29)] == [[], [], []]
    rows_at(real, 30)
    assert {row["mono_ns"] for row in collect_until(real, 31, 2)} == {tick(30).mono_ns}


def test_a_mount_that_hangs_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: str) -> tuple[int, ...]:
        if path == "/hangs":
            time.sleep(60)
        return (4096, 10, 5, 4, 100, 50)

    monkeypatch.setattr(module, "read_statvfs", read)
    monkeypatch.setattr(module, "_TIMEOUT_S", 0.2)
    collector = CapacityOfMounts()
    collector.open(context(Path("/"), capacity_mounts=["/a", "/hangs", "/b"]))
    began_s = time.monotonic()
    rows_at(collector, 0)
    assert time.monotonic() - began_s < 0.15
    rows = collect_until(collector, 1, 2)
    assert [row["mount"] for row in rows] == ["/a", "/b"]
    assert rows[0]["used_bytes"] == 5 * 4096
    failure = collector.facts()["failures"]["/hangs"]  # type: ignore[index]
    assert failure["count"] == 1 and "0.2 s" in failure["reason"]
    collector.close()


def test_a_mount_whose_child_cannot_be_killed_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A child that cannot be killed needs a kernel bug or a dead server; a parent that does not
    # manage to kill it sees the same.
    monkeypatch.setattr(module, "read_statvfs", lambda path: time.sleep(60))
    monkeypatch.setattr(module, "_TIMEOUT_S", 0.05)
    kill, spared = os.kill, []
    monkeypatch.setattr(os, "kill", lambda pid, number: spared.append(pid))
    collector = CapacityOfMounts()
    collector.open(context(Path("/"), capacity_mounts=["/hangs"]))
    rows_at(collector, 0)
    time.sleep(0.1)
    assert rows_at(collector, 1) == []
    rows_at(collector, 30)
    rows_at(collector, 60)
    failure = collector.facts()["failures"]["/hangs"]  # type: ignore[index]
    assert failure["count"] == 3 and f"child {spared[0]} still hangs" in failure["reason"]
    assert len(set(spared)) == 1
    kill(spared[0], signal.SIGKILL)
    wait_until_free(collector, "/hangs")
    collector.close()


def test_a_mount_that_is_gone_is_counted(tmp_path: Path) -> None:
    collector = CapacityOfMounts()
    collector.open(context(Path("/"), capacity_mounts=[str(tmp_path / "gone"), "/"]))
    rows_at(collector, 0)
    assert [row["mount"] for row in collect_until(collector, 1, 1)] == ["/"]
    failures = collector.facts()["failures"]
    assert isinstance(failures, dict)
    assert "No such file" in failures[str(tmp_path / "gone")]["reason"]
    collector.close()


def test_no_mounts_yet_is_partial(tmp_path: Path) -> None:
    collector = CapacityOfMounts()
    assert collector.open(context(tmp_path)) == Availability(
        "partial", "no mount to watch is known yet"
    )
    assert rows_at(collector, 0) == []


@pytest.mark.parametrize(
    ("statvfs", "expected"),
    [
        ((4096, 10, 4, 3, 0, 0), (40960, 24576, 12288, None, None)),
        ((4096, 0, 0, 0, 0, 0), (None, None, None, None, None)),
        ((1 << 20, 1 << 60, 1 << 60, 1 << 60, 5, 5), (None, 0, None, 5, 5)),
    ],
)
def test_numbers_a_file_system_does_not_give_are_unknown(
    statvfs: tuple[int, ...], expected: tuple[int | None, ...]
) -> None:
    assert capacity_of(statvfs) == expected


@pytest.mark.fuse
def test_a_real_file_system_that_hangs_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := fuse_missing():
        pytest.skip(reason)
    (tmp_path / "backing").mkdir()
    monkeypatch.setattr(module, "_TIMEOUT_S", 0.5)
    with SlowFs(tmp_path / "backing", tmp_path / "mount") as slow:
        mount = str(tmp_path / "mount")
        collector = CapacityOfMounts()
        collector.open(context(Path("/"), capacity_mounts=[mount, "/"]))
        slow.change(hang_globs=("*",), hang_classes=("statfs",))
        began_s = time.monotonic()
        rows_at(collector, 0)
        assert time.monotonic() - began_s < 0.4
        assert [row["mount"] for row in collect_until(collector, 1, 1)] == ["/"]
        failures = collector.facts()["failures"]
        # The request has reached the server: the kernel waits for its answer, killed or not.
        assert isinstance(failures, dict) and "was left behind" in failures[mount]["reason"]
        slow.change(hang_globs=())
        wait_until_free(collector, mount)
        rows_at(collector, 30)
        rows = {row["mount"]: row for row in collect_until(collector, 31, 2)}
        assert rows[mount]["fstype"].startswith("fuse")
        assert (
            rows[mount]["size_bytes"]
            == os.statvfs(tmp_path).f_blocks * os.statvfs(tmp_path).f_frsize
        )
        collector.close()
