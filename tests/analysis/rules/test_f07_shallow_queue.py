"""F07: all four signs together; each missing one keeps it quiet."""

from __future__ import annotations

import pytest

from tests.analysis.rules.stores import Row, answer, healthy, job, put, starved, text_of
from tests.analysis.stand_in import StandInStore

RULE = "f07_shallow_queue"
SHALLOW: Row = {"device": "nvme0n1", "role": "disk", "r_s": 200.0, "rkB_s": 25_600.0,
                "r_await": 0.12, "aqu_sz": 0.4, "util": 95.0}  # fmt: skip


def local(row: Row, rank=None, fstype: str = "ext4") -> StandInStore:
    store = job(rank or starved(), fstype=fstype)
    store.nodes["n1"].meta["sources"]["block"] = {
        "state": "on",
        "leaves": {"/scratch": ["nvme0n1"]},
        "devices": [{"name": "sda", "rotational": True}],
    }
    put(store, "block", lambda second: SHALLOW | row)
    return store


def test_all_four_signs() -> None:
    said = answer(RULE, local({}))
    [finding] = said.findings
    assert finding.where.nodes == ("n1",)
    assert finding.where.mounts == ("/scratch",)
    assert [one.metric for one in finding.evidence] == [
        "data_storage_share", "aqu_sz", "r_await_ms", "device_share",
    ]  # fmt: skip
    assert "a read of 128 KiB took 0.12 ms" in text_of(said)
    assert "26 MB/s" in text_of(said)


@pytest.mark.parametrize(
    "row",
    [{"aqu_sz": 30.0}, {"r_await": 8.0}, {"rkB_s": 2_500_000.0}],
    ids=["deep queue", "slow reads", "much data"],
)
def test_one_sign_missing_is_quiet(row: Row) -> None:
    assert answer(RULE, local(row)).state == "quiet"


def test_a_wait_that_does_not_reach_the_device_is_quiet() -> None:
    """io.max holds reads up in the kernel: the device answers at once, and seldom."""
    assert answer(RULE, local({"aqu_sz": 0.01, "r_s": 20.0})).state == "quiet"


def test_workers_are_no_advice_where_they_fill_the_jobs_cpus() -> None:
    store = local({})
    store.nodes["n1"].meta |= {
        "ncpu": 64, "cpus_allowed": {"node": 4, "rank": 4},
        "loaders": [{"pid": 1000, "num_workers": 4}],
    }  # fmt: skip
    [finding] = answer(RULE, store).findings
    assert "reading threads in each worker" in finding.remedy
    assert not any("num_workers" in command for command in finding.commands)


def test_no_demand_is_quiet() -> None:
    assert answer(RULE, local({}, healthy())).state == "quiet"


def test_a_wait_for_preparation_is_quiet() -> None:
    assert answer(RULE, local({}, starved(cause="cpu"))).state == "quiet"


def test_network_storage_has_no_device_here() -> None:
    said = answer(RULE, local({}, fstype="lustre"))
    assert (said.state, said.reason) == ("quiet", "the awaited mounts are on no local device")


def test_layers_above_the_disk_are_not_judged() -> None:
    assert answer(RULE, local({"device": "md0", "role": "md"})).state == "not enough evidence"


def test_without_rows_it_says_so() -> None:
    said = answer(RULE, job(starved(), fstype="ext4"))
    assert said.state == "not enough evidence"
    assert "table block" in said.reason


def test_a_disk_that_rotates_may_take_its_time() -> None:
    store = local({"device": "sda", "r_await": 9.0, "rkB_s": 5_000.0, "aqu_sz": 1.0})
    store.nodes["n1"].meta["sources"]["block"]["leaves"] = {"/scratch": ["sda"]}
    assert "a hard disk" in text_of(answer(RULE, store))
