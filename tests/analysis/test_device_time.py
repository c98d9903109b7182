"""A fast device that one reader waits for all the time: its own read time is the second witness."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_io.analysis.api import analyse_store
from tests.analysis.rules.stores import put, starved
from tests.analysis.stand_in import Job, StandInStore

READ_MS = 1.0  # what a healthy tier needs: no latency is worth a word


def store_of(reads_s: float | None, fstype: str = "ext4") -> StandInStore:
    """Training waits half its time for reads of a millisecond; the device did `reads_s`."""
    store = Job([starved()], fstype=fstype, calls_per_storage_s=1000 / READ_MS).store()
    node = store.nodes["n1"]
    node.meta["sources"]["block"] = {"state": "on", "leaves": {"/scratch": ["nvme0n1"]}}
    if reads_s is not None:
        row = {"device": "nvme0n1", "role": "disk", "r_s": reads_s, "rkB_s": 4 * reads_s,
               "r_await": READ_MS, "aqu_sz": 0.5}  # fmt: skip
        put(store, "block", lambda second: row)
    return store


def told(report: dict[str, Any]) -> list[str]:
    texts = [one["text"] for finding in report["findings"] for one in finding["evidence"]]
    return [text for text in texts if text.startswith("device time")]


def test_the_time_that_reads_spent_in_the_device_is_a_witness() -> None:
    report = analyse_store(store_of(500))
    assert report["verdict"] == "storage"
    [text] = told(report)
    assert "does not agree" not in text


def test_a_device_that_hardly_read_is_none() -> None:
    report = analyse_store(store_of(50))
    assert report["verdict"] == "not-proven"
    [text] = told(report)
    assert "does not agree" in text


@pytest.mark.parametrize(("reads_s", "fstype"), [(None, "ext4"), (500, "nfs4")])
def test_without_rows_and_on_a_network_mount_it_is_not_heard(
    reads_s: float | None, fstype: str
) -> None:
    report = analyse_store(store_of(reads_s, fstype))
    assert report["verdict"] == "not-proven"
    assert told(report) == []
