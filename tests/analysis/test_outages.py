"""A client that had lost its servers, by its own word, and the stalls that lie in that time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.outages import find_outages
from slurm_io.analysis.picture import take_picture
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.analysis.witness import Witness
from tests.analysis.stand_in import EPOCH_NS, NS, Job, StandInStore, one_rank, train
from tests.collectors.fake_host import context, tick, write_tree
from tests.collectors.lustre_host import LustreHost, import_text, osc
from tests.collectors.test_beegfs import CLIENT, WELL
from tests.collectors.test_beegfs import node as beegfs_node
from tests.collectors.test_weka import INTERFACE, STAT, Node

EPOCH_S = EPOCH_NS // NS
START_S = tick(0).ts_ns // NS


def job(fstype: str, stall: range = range(100, 110)) -> StandInStore:
    """Steps of 0.1 s; those whose number is in `stall` wait 2 s for storage."""

    def wait(k: int) -> tuple[float, str]:
        return (2.0, "storage") if k in stall else (0.0005, "pipe")

    return Job([train(one_rank(), 300, 0.1, wait)], fstype=fstype).store()


# The stall is from about second 110.5 to 131.5 of the node's clock.
LUSTRE = {"lustre": {"outages": [
    {"target": "scratch-OST0003", "state": "EVICTED",
     "from_ts_s": EPOCH_S + 111, "until_ts_s": EPOCH_S + 130},
]}}  # fmt: skip
WEKA = {"weka": {"containers": [
    {"container": "client", "front_end_missing_ticks": 19,
     "front_end_missing_ts_ns": [EPOCH_NS + 111 * NS, EPOCH_NS + 130 * NS]},
]}}  # fmt: skip
BEEGFS = {"beegfs": {"clients": [
    {"client": "A", "not_well": {"storage target 7 @ oss2 [ID: 1]: Probably-offline / Good": {
        "ticks": 3, "first_ts_ns": EPOCH_NS + 111 * NS, "last_ts_ns": EPOCH_NS + 131 * NS}}},
]}}  # fmt: skip
KINDS = [("lustre", LUSTRE, "scratch-OST0003 EVICTED"), ("wekafs", WEKA, "Weka container client"),
         ("beegfs", BEEGFS, "storage target 7 @ oss2 [ID: 1] Probably-offline")]  # fmt: skip


def told(store: StandInStore, sources: dict[str, Any]) -> StandInStore:
    store.nodes["n1"].meta["sources"] |= sources
    return store


def heard(store: StandInStore) -> Witness:
    witnesses = take_picture(store, Thresholds()).witnesses
    return next(one for one in witnesses if one.name == "client's connection")


@pytest.mark.parametrize(("fstype", "sources", "what"), KINDS)
def test_a_stall_in_an_outage_agrees(fstype: str, sources: dict[str, Any], what: str) -> None:
    found = heard(told(job(fstype), sources))
    assert found.agrees is True
    assert what in found.text
    assert "stalled seconds lay in the outage" in found.text


@pytest.mark.parametrize(("fstype", "sources", "what"), KINDS)
def test_an_outage_of_another_file_system_is_not_heard(
    fstype: str, sources: dict[str, Any], what: str
) -> None:
    assert heard(told(job("nfs4"), sources)).agrees is None


def test_an_outage_that_nobody_felt_does_not_agree() -> None:
    """The target was lost before the stall began: another one's files were read meanwhile."""
    early = {"lustre": {"outages": [
        {"target": "scratch-OST0003", "state": "DISCONN",
         "from_ts_s": EPOCH_S + 101, "until_ts_s": EPOCH_S + 109},
    ]}}  # fmt: skip
    assert heard(told(job("lustre"), early)).agrees is False


def test_an_outage_that_covers_a_few_of_many_stalls_does_not_agree() -> None:
    """Reads are slow all the time; four seconds of it cannot be laid to the outage alone."""
    store = told(job("lustre", range(300)), {"lustre": {"outages": [
        {"target": "scratch-OST0003", "state": "DISCONN",
         "from_ts_s": EPOCH_S + 111, "until_ts_s": EPOCH_S + 115},
    ]}})  # fmt: skip
    assert heard(store).agrees is False


def test_an_outage_that_is_not_over_reaches_to_the_end() -> None:
    sources = {"lustre": {"outages": [
        {"target": "scratch-OST0003", "state": "DISCONN", "from_ts_s": EPOCH_S + 111,
         "until_ts_s": None},
    ]}}  # fmt: skip
    assert heard(told(job("lustre", range(100, 300)), sources)).agrees is True


def test_two_sights_far_apart_are_no_outage_in_between() -> None:
    rare = {"weka": {"containers": [
        {"container": None, "front_end_missing_ticks": 2,
         "front_end_missing_ts_ns": [EPOCH_NS + 102 * NS, EPOCH_NS + 150 * NS]},
    ]}}  # fmt: skip
    assert find_outages(told(job("wekafs"), rare)) == ()


def test_a_beegfs_target_that_is_synchronised_is_no_outage() -> None:
    resync = {"beegfs": {"clients": [{"client": "A", "not_well": {
        "storage target 7 @ oss2 [ID: 1]: Online / Needs-resync": {
            "ticks": 3, "first_ts_ns": EPOCH_NS, "last_ts_ns": EPOCH_NS + 20 * NS}}}]}}  # fmt: skip
    assert find_outages(told(job("beegfs"), resync)) == ()


@pytest.mark.parametrize(
    "damage",
    [None, 7, [], [1], [{}], [{"from_ts_s": "x"}], [{"from_ts_s": float("nan")}],
     [{"from_ts_s": -1}], [{"from_ts_s": 10**30, "until_ts_s": True}]],
)  # fmt: skip
def test_damage_is_no_outage(damage: object) -> None:
    sources = {
        "lustre": {"outages": damage},
        "weka": {"containers": damage},
        "beegfs": {"clients": damage},
    }
    store = told(job("lustre"), sources)
    assert find_outages(store) == ()
    assert heard(store).agrees is None


def told_by_lustre(root: Path) -> dict[str, object]:
    one = LustreHost(root)
    one.mount()
    one.file(f"osc/{osc(1)}/state", "current_state: FULL\n")
    one.open()
    one.rows(0)
    one.ost(1, state=import_text("FULL", attempts=2))
    history = f" - [ {START_S + 1}, EVICTED ]\n - [ {START_S + 41}, FULL ]\n"
    one.file(f"osc/{osc(1)}/state", f"current_state: FULL\nstate_history:\n{history}")
    one.rows(43)
    return {"lustre": one.lustre.facts()}


def told_by_weka(root: Path) -> dict[str, object]:
    broken = INTERFACE.replace("Connected frontend pid 4081176", "Frontend is not connected")
    node = Node(root, {"proc/wekafs/stat": STAT, "proc/wekafs/interface": INTERFACE})
    node.rows(0)
    node.write({"proc/wekafs/interface": broken})
    node.rows(1)
    node.rows(2)
    return {"weka": node.weka.facts()}


def told_by_beegfs(root: Path) -> dict[str, object]:
    collector = beegfs_node(root)
    collector.open(context(root))
    collector.collect(tick(0))
    gone = WELL.replace("Online / Good", "Offline / Good")
    write_tree(root, {f"{CLIENT}/storage_target_state": gone})
    for second in (10, 20, 30):
        collector.collect(tick(second))
    collector.close()
    return {"beegfs": collector.facts()}


@pytest.mark.parametrize(
    ("tell", "state", "from_s", "until_s"),
    [
        (told_by_lustre, "EVICTED", 1, 41),
        (told_by_weka, "without front end", 1, 2),
        (told_by_beegfs, "Offline / Good", 10, 30),
    ],
)
def test_what_collectors_note_is_understood(
    tmp_path: Path, tell: Callable[[Path], dict[str, Any]], state: str, from_s: int, until_s: int
) -> None:
    [found] = find_outages(told(job("lustre"), tell(tmp_path)))
    assert found.state == state
    assert found.from_ns == (START_S + from_s) * NS
    assert found.until_ns == (START_S + until_s) * NS


def test_the_outage_is_evidence_of_the_finding() -> None:
    report = analyse_store(told(job("lustre"), LUSTRE))
    texts = [one["text"] for each in report["findings"] for one in each["evidence"]]
    assert any("scratch-OST0003 EVICTED" in text for text in texts)
