"""Compaction at the end of a job: failing does no harm, and the last node to arrive sees to it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from slurm_io.epilog.lead import Lead
from slurm_io.epilog.tidy import Tidy, tidy_up
from slurm_io.store.markers import claim_leader, release_leader
from tests.store.wide_store import all_of, deliver_node, make_store, names_in

NODES = ["n1", "n2", "n3"]
LATE = float("inf")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store", NODES)


def is_compacted(store: Path) -> bool:
    return not list(store.glob("node=*"))


def test_the_leader_compacts_after_its_report(store: Path) -> None:
    tidy = Tidy(store, "n1", LATE)
    before = all_of(store)
    lead = Lead(store, "n1", frozenset(NODES), 0.0, lambda: None, tidy)
    assert lead.run() == 1
    assert is_compacted(store)
    assert all_of(store) == before
    assert tidy.said == []
    assert lead.run() == 0, "nothing new since"


def test_a_late_node_leads_again_and_is_folded_in(store: Path) -> None:
    expected = frozenset([*NODES, "n4"])
    Lead(store, "n1", expected, 0.0, lambda: None, Tidy(store, "n1", LATE)).run()
    assert is_compacted(store)
    deliver_node(store, "n4")
    before = all_of(store)
    lead = Lead(store, "n4", expected, 0.0, lambda: None, Tidy(store, "n4", LATE))
    assert lead.run() == 1
    assert is_compacted(store)
    assert all_of(store) == before


def test_no_time_left_is_said_and_harmless(store: Path) -> None:
    tidy = Tidy(store, "n1", time.monotonic() - 1)
    before = all_of(store)
    assert Lead(store, "n1", frozenset(NODES), 0.0, lambda: None, tidy).run() == 1
    assert "no time left" in tidy.said[0]
    assert all_of(store) == before


def test_a_store_that_is_gone_is_said_and_harmless(store: Path) -> None:
    shutil.rmtree(store)
    tidy = Tidy(store, "n1", LATE)
    tidy()
    assert len(tidy.said) == 1


def test_without_an_analysis_whoever_completes_the_store_compacts_it(store: Path) -> None:
    expected = frozenset([*NODES, "n4"])
    assert tidy_up(store, "n2", expected, Tidy(store, "n2", LATE), led=False) == []
    assert not is_compacted(store), "a node is missing, and may come"
    deliver_node(store, "n4")
    assert tidy_up(store, "n4", expected, Tidy(store, "n4", LATE), led=False) == []
    assert is_compacted(store)
    assert ".leader" not in names_in(store)


def test_the_leader_does_not_wait_for_the_dead(store: Path) -> None:
    expected = frozenset([*NODES, "n4"])
    tidy_up(store, "n1", expected, Tidy(store, "n1", LATE), led=True)
    assert is_compacted(store)


def test_who_finds_it_being_compacted_leaves(store: Path) -> None:
    claim_leader(store, "n9")
    tidy_up(store, "n1", frozenset(NODES), Tidy(store, "n1", LATE), led=True)
    assert not is_compacted(store)
    release_leader(store, "n9")


def test_a_node_that_cannot_be_compacted_is_tried_once(store: Path) -> None:
    (store / "node=n2" / "notes").touch()
    said = tidy_up(store, "n1", frozenset(NODES), Tidy(store, "n1", LATE), led=False)
    assert len(said) == 1
    assert "notes" in said[0]
