"""Drains that were made before the wave could be known are taken back, and nobody else's are."""

from __future__ import annotations

import random
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.config import Config
from slurm_io.errors import SlurmError
from slurm_io.prolog.drain import drain_or_alert
from slurm_io.prolog.drain_site import Fault, Site
from slurm_io.prolog.node_memory import recall
from slurm_io.slurm.node_state import NodeState
from tests.prolog.node_table import NOW_S, NodeTable, World
from tests.prolog.stand_ins import make_config

FAULT = Fault("mounts", "/scratch is not mounted: mount it")
STOPPED = replace(FAULT, drains=False)


def made(root: Path, nodes: int = 100, **checks: Any) -> Callable[[str], World]:
    """A cluster whose nodes can be asked for by name; at most two may drain."""
    table = NodeTable.of(nodes)
    config = make_config(state_dir=str(root / "lib"), checks={"settle_s": 0, **checks})
    return lambda node: World.made(root, config, table, node)


def fail(world: World, fault: Fault = FAULT) -> bool:
    return drain_or_alert(world.site, [fault])


def test_the_third_node_takes_the_drains_of_the_first_two_back(tmp_path: Path) -> None:
    at = made(tmp_path)
    assert fail(at("t1")) and fail(at("t2"))
    third = at("t3")
    assert third.table.drained() == {"t1", "t2"}
    third.table.now_s += 500
    assert not fail(third)
    assert third.table.drained() == set()
    (alert,) = third.alerts
    assert "3 of 100 nodes fail it alike (t1, t2, t3), at most 2 may drain" in alert
    assert "given back: t1, t2" in alert
    assert third.memory().open
    assert "gave t1 back, many nodes fail it alike (was: slurm_io: mounts: " in third.log()


def test_a_node_given_back_does_not_drain_again_while_the_others_fail(tmp_path: Path) -> None:
    at = made(tmp_path)
    for node in ("t1", "t2", "t3"):
        fail(at(node))
    first = at("t1")
    first.table.now_s += 5000
    assert not fail(first)
    assert first.table.drained() == set()
    assert first.alerts


def test_a_drain_of_an_earlier_time_is_no_part_of_the_wave(tmp_path: Path) -> None:
    at = made(tmp_path)
    fail(at("t1"))
    later = at("t2")
    later.table.now_s += 700
    assert fail(later) and fail(at("t3")) and not fail(at("t4"))
    assert later.table.drained() == {"t1"}


def test_another_checks_drain_is_no_part_of_the_wave(tmp_path: Path) -> None:
    at = made(tmp_path)
    fail(at("t1"), Fault("arrays", "md0 lost a member"))
    for node in ("t2", "t3", "t4"):
        fail(at(node))
    assert at("t1").table.drained() == {"t1"}


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": "broken fan"},
        {"reason": "slurm_io: mounts: /scratch is not mounted: mount it:keep it, Ada"},
        {"reason": "slurm_io: mounts: another text"},
        {"reason": ""},
        {"comment": f"slurm_io:failing:mounts@{NOW_S}"},
        {"comment": "theirs"},
        {"state": "DOWN+DRAIN"},
        {"state": "IDLE+DRAIN+MAINT"},
    ],
)
def test_what_is_not_ours_alone_stays_drained(changes: dict[str, str], tmp_path: Path) -> None:
    at = made(tmp_path)
    fail(at("t1"))
    at("t1").set("t1", **changes)
    for node in ("t2", "t3", "t4", "t5"):
        fail(at(node))
    assert at("t1").table.drained() == {"t1"}


def test_an_admin_who_comes_between_look_and_resume_wins(tmp_path: Path) -> None:
    at = made(tmp_path)
    fail(at("t1")), fail(at("t2"))
    third = at("t3")
    look = third.table.read_one

    def as_the_admin_acts(node: str) -> NodeState | None:
        if node == "t1":
            third.set("t1", reason="broken fan")
        return look(node)

    third.table.read_one = as_the_admin_acts  # type: ignore[method-assign]
    fail(third)
    assert third.table.drained() == {"t1"}
    assert third.table.states["t1"].reason == "broken fan"


def test_one_that_slurm_does_not_resume_keeps_no_other_drained(tmp_path: Path) -> None:
    at = made(tmp_path)
    fail(at("t1")), fail(at("t2"))
    third = at("t3")
    update = third.table.update

    def refuse(node: str, values: Mapping[str, str]) -> None:
        if node == "t1" and "State" in values:
            raise SlurmError("scontrol: Invalid node state specified")
        update(node, values)

    third.table.update = refuse  # type: ignore[method-assign]
    assert not fail(third)
    assert third.table.drained() == {"t1"}
    assert "t1 could not be given back: scontrol" in third.log()


def test_who_announced_during_our_drain_is_seen_by_the_look_after_it(tmp_path: Path) -> None:
    """Those saw no drain of ours when they looked: only we can take it back."""
    at = made(tmp_path)
    first = at("t1")
    update = first.table.update

    def drained_late(node: str, values: Mapping[str, str]) -> None:
        if values.get("State") == "DRAIN" and node == "t1":
            for other in ("t2", "t3", "t4"):
                fail(at(other), STOPPED)
        update(node, values)

    first.table.update = drained_late  # type: ignore[method-assign]
    assert not fail(first)
    assert first.table.drained() == set()
    assert "given back: t1" in first.alerts[0]
    assert first.memory().reason == ""


def test_a_slurmctld_that_is_silent_after_the_drain_leaves_it_standing(tmp_path: Path) -> None:
    first = made(tmp_path)("t1")
    update = first.table.update

    def then_deaf(node: str, values: Mapping[str, str]) -> None:
        update(node, values)
        first.table.deaf = "State" in values

    first.table.update = then_deaf  # type: ignore[method-assign]
    assert fail(first)
    assert first.table.drained() == {"t1"}
    assert "could not look again" in first.log()


def test_another_prolog_of_a_drained_node_does_not_make_its_drain_anybody_elses(
    tmp_path: Path,
) -> None:
    at = made(tmp_path)
    fail(at("t1"))
    fail(at("t1"), replace(FAULT, text="/scratch does not answer within 1.7 s"))
    for node in ("t2", "t3"):
        fail(at(node))
    assert at("t1").table.drained() == set()


def test_faults_that_only_stop_jobs_count_and_open_the_guard_but_drain_nothing(
    tmp_path: Path,
) -> None:
    at = made(tmp_path)
    for node in ("t1", "t2"):
        world = at(node)
        assert not fail(world, STOPPED)
        assert world.alerts == []
        assert world.memory().open == {}, "two broken nodes go on stopping their jobs"
    third = at("t3")
    fail(third, STOPPED)
    assert third.table.drained() == set()
    assert third.memory().open == {"mounts": NOW_S + 600}
    assert len(third.alerts) == 1


def test_where_no_node_may_drain_one_broken_node_still_stops_its_jobs(tmp_path: Path) -> None:
    world = made(tmp_path, blast_nodes=0)("t1")
    assert not fail(world, STOPPED)
    assert (world.alerts, world.memory().open) == ([], {})


def test_of_a_drain_and_a_stop_the_drain_comes_first(tmp_path: Path) -> None:
    world = made(tmp_path)("t1")
    assert drain_or_alert(world.site, [Fault("arrays", "x", drains=False), FAULT])
    assert world.own.reason.startswith("slurm_io: mounts: ")


class Turns:
    """Lets the processes of several nodes run call by call, in an order that chance picks."""

    def __init__(self, table: NodeTable, seed: int) -> None:
        self._table = table
        self._chance = random.Random(seed)
        self._waiting: dict[str, threading.Semaphore] = {}
        self._paused = threading.Semaphore(0)
        self._mine = threading.local()

    def run(self, config: Config, root: Path, nodes: list[str]) -> None:
        threads = []
        for node in nodes:
            self._waiting[node] = threading.Semaphore(0)
            site = replace(
                World.made(root, config, self._table, node).site,
                nodes=self,
                sleep=lambda seconds: self._turn(),
            )
            threads.append(threading.Thread(target=self._process, args=(node, site)))
        for thread in threads:
            thread.start()
        while self._waiting:
            self._chance.choice(list(self._waiting.values())).release()
            self._paused.acquire()
        for thread in threads:
            thread.join()

    def _process(self, node: str, site: Site) -> None:
        self._mine.node = node
        self._waiting[node].acquire()
        try:
            drain_or_alert(site, [FAULT])
        finally:
            del self._waiting[node]
            self._paused.release()

    def _turn(self) -> None:
        self._paused.release()
        self._waiting[self._mine.node].acquire()

    def read(self) -> tuple[NodeState, ...]:
        self._turn()
        return self._table.read()

    def read_one(self, node: str) -> NodeState | None:
        self._turn()
        return self._table.read_one(node)

    def update(self, node: str, values: Mapping[str, str]) -> None:
        self._turn()
        self._table.update(node, values)


@settings(max_examples=150, deadline=None)
@given(failing=st.integers(1, 5), seed=st.integers(0, 2**31), total=st.sampled_from([20, 60]))
def test_in_no_order_of_calls_is_a_node_of_a_wave_left_drained(
    failing: int, seed: int, total: int
) -> None:
    """20 nodes: one may drain; 60: two. Up to that number all drain, above it none is left."""
    table = NodeTable.of(total)
    nodes = [f"t{k}" for k in range(1, failing + 1)]
    with tempfile.TemporaryDirectory() as folder:
        config = make_config(state_dir=f"{folder}/lib")
        Turns(table, seed).run(config, Path(folder), nodes)
        assert table.drained() == (set(nodes) if failing <= (1 if total == 20 else 2) else set())
        for node in table.drained():
            assert recall(config, node).reason == table.states[node].reason
