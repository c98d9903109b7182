"""Datasets on a block device of their own, and memory that is too small to hold them."""

from __future__ import annotations

from tests.grid.model import F01, MIB, STORAGE, Disk, Limits, Scenario, slow_reads, steps
from tests.labs.slowfs_settings import SlowFsSettings

F04 = frozenset({"F04"})
SCENARIOS = (
    Scenario(
        name="saturated-disk",
        why="Four workers read 1 MiB at a time from a disk that gives 24 MiB/s: a long queue.",
        train=steps(batch=1, workers=4),
        verdicts=STORAGE,
        fired=F01,
        quiet=F04 | {"F07", "F16"},
        disk=Disk(SlowFsSettings(bandwidth_bytes_per_s=24 * MIB), 640 * MIB),
        files=224,
        file_bytes=MIB,
        is_long=True,
    ),
    Scenario(
        name="shallow-queue",
        why="One reader, 16 pages one after the other from a fast disk: queue 1, a few MB/s.",
        train=steps(800, compute_ms=10, batch=1, reader="pieces"),
        verdicts=STORAGE,
        fired=frozenset({"F01", "F07"}),
        quiet=F04,
        disk=Disk(slow_reads(0.001)),
        files=1,
        file_bytes=128 * MIB,
        silent_when_busy=frozenset({"F07"}),  # the disk is a process here, and answers late then
        is_long=True,
    ),
    Scenario(
        name="page-cache-thrash",
        why="Three passes over 360 MiB with memory for half of it: all of them read the disk.",
        train=steps(90, compute_ms=50, batch=1, epochs=3),
        verdicts=STORAGE,
        fired=F01 | {"F17"},
        quiet=F04,
        disk=Disk(SlowFsSettings(bandwidth_bytes_per_s=120 * MIB), 480 * MIB),
        limits=Limits(memory_bytes=448 * MIB),
        files=90,
        file_bytes=4 * MIB,
        is_long=True,
    ),
)
