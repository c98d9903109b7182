"""Native NVMe multipath: head and paths, and never both."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_io.filesystems.block_devices import head_of
from slurm_io.filesystems.diskstats import DiskCounters, parse_diskstats
from slurm_io.filesystems.multipath import counted_on, paths_by_head, silent_heads

SAMPLES = Path(__file__).parents[1] / "fixtures" / "host" / "diskstats"


def counters(**changed: int) -> DiskCounters:
    return DiskCounters(*[0] * 11)._replace(**changed)


SILENT, BUSY = counters(), counters(read_ios=7)


@pytest.mark.parametrize(
    ("name", "head"),
    [("nvme0c0n1", "nvme0n1"), ("nvme3c33n1", "nvme3n1"), ("nvme0n1", None), ("nvme0n1p1", None),
     ("nvme3c33n1p2", None), ("sda", None), ("nvme12c0n31", "nvme12n31")],
)  # fmt: skip
def test_the_head_is_in_the_name_of_the_path(name: str, head: str | None) -> None:
    assert head_of(name) == head


@pytest.mark.parametrize(
    ("sample", "head", "path"),
    [
        ("nvme_multipath_atop157", "nvme0n1", "nvme0c0n1"),
        # The head is not even listed there.
        ("nvme_multipath_netdata5744", "nvme3n1", "nvme3c33n1"),
    ],
)
def test_kernels_that_leave_the_head_at_zero(sample: str, head: str, path: str) -> None:
    lines = parse_diskstats((SAMPLES / f"{sample}.txt").read_text())
    found = {line.name: line.counters for line in lines}
    assert silent_heads(found) == {head: (path,)}
    assert counted_on(found.get(head), [found[path]]) == "paths"


def test_kernels_that_count_on_both_are_read_at_the_head_alone() -> None:
    found = {"nvme0n1": BUSY, "nvme0c0n1": BUSY, "nvme0c1n1": BUSY, "sda": BUSY}
    assert silent_heads(found) == {}
    assert counted_on(BUSY, [BUSY, BUSY]) == "head"


def test_all_paths_of_a_silent_head_are_added_up() -> None:
    found = {"nvme0n1": SILENT, "nvme0c0n1": SILENT, "nvme0c1n1": BUSY, "nvme1c0n1": SILENT}
    assert silent_heads(found) == {"nvme0n1": ("nvme0c0n1", "nvme0c1n1")}
    assert paths_by_head(found) == {
        "nvme0n1": ("nvme0c0n1", "nvme0c1n1"), "nvme1n1": ("nvme1c0n1",),
    }  # fmt: skip


def test_while_nothing_was_done_the_head_stands_for_itself() -> None:
    assert silent_heads({"nvme0n1": SILENT, "nvme0c0n1": SILENT}) == {}
    assert counted_on(SILENT, [SILENT]) is None
