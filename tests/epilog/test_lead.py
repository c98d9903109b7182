"""The last node to arrive is seen, whoever leads; a dead node delays nothing."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from slurm_io.epilog import lead as lead_module
from slurm_io.epilog.lead import Lead
from slurm_io.errors import StoreError
from slurm_io.store.markers import arrived, claim_leader, mark_done


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lead_module, "SETTLE_S", 0.2)
    monkeypatch.setattr(lead_module, "POLL_S", 0.02)


class Desk:
    """A store and what each analysis saw there."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.saw: list[set[str]] = []

    def deliver(self, node: str) -> None:
        mark_done(self.store, node, {"ts_ns": time.time_ns(), "clean": True, "missing": []})

    def analyse(self) -> None:
        self.saw.append(arrived(self.store))

    def lead(self, node: str, *expected: str, grace_s: float = 0.0) -> Lead:
        return Lead(self.store, node, frozenset(expected), grace_s, self.analyse)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_one_node_analyses_once(desk: Desk) -> None:
    desk.deliver("t1")
    assert desk.lead("t1", "t1", grace_s=60).run() == 1
    assert desk.saw == [{"t1"}]


def test_all_there_already_means_one_analysis_by_whoever_comes_first(desk: Desk) -> None:
    for node in ("t1", "t2"):
        desk.deliver(node)
    assert desk.lead("t2", "t1", "t2", grace_s=60).run() == 1
    assert desk.lead("t1", "t1", "t2", grace_s=60).run() == 0
    assert desk.saw == [{"t1", "t2"}]


def test_a_node_that_never_comes_delays_no_report(desk: Desk) -> None:
    desk.deliver("t1")
    thread = threading.Thread(target=desk.lead("t1", "t1", "t2", grace_s=3).run)
    thread.start()
    deadline = time.monotonic() + 2.5
    while not desk.saw and time.monotonic() < deadline:
        time.sleep(0.02)
    assert desk.saw == [{"t1"}], "the report has to come long before the grace is over"
    thread.join()
    assert desk.saw == [{"t1"}], "and is not made again for nothing"


def test_a_node_within_the_grace_has_the_report_made_again(desk: Desk) -> None:
    desk.deliver("t1")
    thread = threading.Thread(target=desk.lead("t1", "t1", "t2", grace_s=10).run)
    thread.start()
    while not desk.saw:
        time.sleep(0.02)
    desk.deliver("t2")
    thread.join()
    assert desk.saw == [{"t1"}, {"t1", "t2"}]


def test_a_late_node_makes_it_again_itself(desk: Desk) -> None:
    desk.deliver("t1")
    desk.lead("t1", "t1", "t2").run()
    desk.deliver("t2")
    assert desk.lead("t2", "t1", "t2").run() == 1
    assert desk.saw == [{"t1"}, {"t1", "t2"}]


def test_a_node_that_delivers_again_counts_as_new(desk: Desk) -> None:
    desk.deliver("t1")
    desk.lead("t1", "t1").run()
    time.sleep(0.01)
    desk.deliver("t1")
    assert desk.lead("t1", "t1").run() == 1


def test_who_finds_the_lead_taken_leaves_and_the_leader_sees_it(desk: Desk) -> None:
    desk.deliver("t1")
    arrives = threading.Event()

    def analyse() -> None:
        desk.analyse()
        if not arrives.is_set():
            arrives.set()
            desk.deliver("t2")
            assert desk.lead("t2", "t1", "t2").run() == 0

    assert Lead(desk.store, "t1", frozenset({"t1", "t2"}), 0.0, analyse).run() == 2
    assert desk.saw == [{"t1"}, {"t1", "t2"}]


def test_a_failed_analysis_gives_the_lead_back(desk: Desk) -> None:
    desk.deliver("t1")

    def fail() -> None:
        raise StoreError("damaged")

    with pytest.raises(StoreError):
        Lead(desk.store, "t1", frozenset({"t1"}), 0.0, fail).run()
    assert claim_leader(desk.store, "t2")


def test_compaction_comes_last_and_under_the_claim(desk: Desk) -> None:
    desk.deliver("t1")
    seen: list[tuple[int, bool]] = []

    def compact() -> None:
        seen.append((len(desk.saw), claim_leader(desk.store, "t9")))

    lead = Lead(desk.store, "t1", frozenset({"t1"}), 0.0, desk.analyse, compact)
    assert lead.run() == 1
    assert seen == [(1, False)]


def test_a_node_that_comes_during_compaction_is_seen(desk: Desk) -> None:
    desk.deliver("t1")

    def compact() -> None:
        if len(desk.saw) == 1:
            desk.deliver("t2")
            assert desk.lead("t2", "t1", "t2").run() == 0

    assert Lead(desk.store, "t1", frozenset({"t1", "t2"}), 0.0, desk.analyse, compact).run() == 2
    assert desk.saw == [{"t1"}, {"t1", "t2"}]
