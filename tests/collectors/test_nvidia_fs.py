"""The collector of GPUDirect Storage on recorded and made texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_io.collectors.base import Availability
from slurm_io.collectors.nvidia_fs import NvidiaFs
from tests.collectors.fake_host import context, rows_at, write_tree
from tests.filesystems.client_samples import sample
from tests.filesystems.test_nvidia_fs import ENABLED

DISABLED = sample("gds/proc_driver_nvidia_fs_stats_v4.txt")


def opened(root: Path, text: str | None) -> tuple[NvidiaFs, Availability]:
    if text is not None:
        write(root, text)
    collector = NvidiaFs()
    return collector, collector.open(context(root))


def write(root: Path, text: str) -> None:
    write_tree(root, {"proc/driver/nvidia-fs/stats": text})


def changed(**numbers: int) -> str:
    text = ENABLED
    known = {"ok": "ok=1000", "err": "err=5 readMiB", "mib": "readMiB=4096", "us": "(usec)=594",
             "now": "Read=5"}  # fmt: skip
    for name, number in numbers.items():
        old = known[name]
        text = text.replace(old, old.replace(old.partition("=")[2].split()[0], str(number), 1))
    return text


def rows(collector: NvidiaFs, second: float) -> dict[str, dict[str, Any]]:
    return {row["op_class"]: row for row in rows_at(collector, second)}


def test_no_driver_is_nothing_to_miss(tmp_path: Path) -> None:
    collector, availability = opened(tmp_path, None)
    assert availability == Availability("absent", "the driver nvidia-fs is not loaded")
    assert rows(collector, 0) == {}


def test_switched_off_and_not_used_is_nothing_to_miss(tmp_path: Path) -> None:
    _, availability = opened(tmp_path, DISABLED)
    assert availability.state == "absent"


def test_switched_off_while_a_process_uses_it_is_off_with_the_remedy(tmp_path: Path) -> None:
    collector, availability = opened(
        tmp_path, DISABLED.replace("Active Process: 0", "Active Process: 8")
    )
    assert availability.state == "off"
    assert "IO stats: Disabled" in availability.reason
    assert "rw_stats_enabled" in availability.reason
    assert rows(collector, 0) == {}


def test_a_series(tmp_path: Path) -> None:
    collector, availability = opened(tmp_path, ENABLED)
    assert availability == Availability("on")
    assert rows(collector, 0) == {}
    # Requests run although none ended.
    (idle,) = rows(collector, 1).values()
    assert (idle["op_class"], idle["ops"], idle["inflight"]) == ("read", 0, 5)
    write(tmp_path, changed(ok=1300, err=6, mib=4396, us=700))
    first = rows(collector, 2)["read"]
    assert (first["mount"], first["fstype"], first["source"]) == ("*", "nvidia-fs", "nvidia-fs")
    assert (first["ops"], first["errors"], first["bytes"]) == (301, 1, 300 << 20)
    # The driver's mean may still be that of a second long ago.
    assert first["exe_ms"] is None and first["rtt_ms"] is None
    write(tmp_path, changed(ok=1400, err=6, mib=4496, us=900, now=0))
    second = rows(collector, 3)["read"]
    assert (second["ops"], second["exe_ms"], second["inflight"]) == (100, pytest.approx(0.9), 0)
    assert rows(collector, 4) == {}


def test_counters_that_were_cleared_cost_one_interval(tmp_path: Path) -> None:
    collector, _ = opened(tmp_path, ENABLED)
    rows(collector, 0)
    write(tmp_path, changed(ok=1, err=0, mib=0, now=0))
    assert rows(collector, 1) == {}
    assert collector.facts()["restarts"] == {"*": 1}
    write(tmp_path, changed(ok=11, err=0, mib=9, now=0))
    assert rows(collector, 2)["read"]["ops"] == 10


def test_counting_switched_off_in_between_is_told(tmp_path: Path) -> None:
    collector, _ = opened(tmp_path, ENABLED)
    rows(collector, 0)
    write(tmp_path, DISABLED)
    assert rows(collector, 1) == {}
    write(tmp_path, changed(ok=5000, now=0))
    assert rows(collector, 2) == {}
    assert collector.facts()["ticks_without_counts"] == 1
