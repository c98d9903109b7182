"""Drain and undrain against a node table in memory; tests/cluster does it with a real one."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_io.errors import SlurmError
from slurm_io.prolog import drain
from slurm_io.prolog.blast_radius import reason_print
from slurm_io.prolog.drain import clear_marks, drain_or_alert
from slurm_io.prolog.drain_site import Fault, Site
from slurm_io.prolog.node_memory import NodeMemory, memory_folder, remember
from slurm_io.prolog.undrain import undrain
from slurm_io.slurm.node_state import NodeState
from tests.prolog.node_table import NOW_S, NodeTable, World
from tests.prolog.stand_ins import make_config

FAULT = Fault("mounts", "/scratch is not mounted: mount it")
REASON = "slurm_io: mounts: /scratch is not mounted: mount it"
MARKED = f"slurm_io:failing:mounts@{NOW_S}:{reason_print(REASON)}"


@pytest.fixture
def world(tmp_path: Path) -> World:
    config = make_config(state_dir=str(tmp_path / "lib"), checks={"settle_s": 2.0})
    return World.made(tmp_path, config, NodeTable.of(4))


def sleeping(world: World, while_asleep: Callable[[], None]) -> Site:
    return replace(world.site, sleep=lambda seconds: while_asleep())


def test_one_faulty_node_is_drained_with_our_reason(world: World) -> None:
    assert drain_or_alert(world.site, [FAULT])
    assert world.own.state == "IDLE+DRAIN"
    assert world.own.reason == REASON
    assert world.own.comment == MARKED
    assert world.memory().marks == {"mounts": NOW_S}
    assert world.memory().reason == world.own.reason
    assert not world.alerts


def test_the_mark_is_there_before_the_others_are_looked_at(world: World) -> None:
    seen = []
    drain_or_alert(sleeping(world, lambda: seen.append(world.own.comment)), [FAULT])
    assert seen == [MARKED]


def test_others_that_fail_meanwhile_stop_it_and_it_alerts(world: World) -> None:
    site = sleeping(world, lambda: world.set("t2", comment=MARKED))
    assert not drain_or_alert(site, [FAULT])
    assert world.own.state == "IDLE"
    assert len(world.alerts) == 1
    assert "2 of 4 nodes fail it alike (t1, t2)" in world.alerts[0]
    assert "ALERT" in world.log()
    assert world.memory().open == {"mounts": NOW_S + 600}


def test_of_two_faults_the_one_that_may_drain_does(world: World) -> None:
    world.set("t2", comment=MARKED)
    assert drain_or_alert(world.site, [FAULT, Fault("arrays", "md0 lost a member")])
    assert world.own.reason == "slurm_io: arrays: md0 lost a member"


@pytest.mark.parametrize(
    "state", ["IDLE+DRAIN", "DOWN", "ALLOCATED+DRAIN", "DOWN+DRAIN", "IDLE+FAIL"]
)
def test_a_node_out_of_service_already_keeps_its_reason(world: World, state: str) -> None:
    world.set(state=state, reason="broken fan")
    assert drain_or_alert(world.site, [FAULT])
    assert world.own.reason == "broken fan"
    assert not any("State" in update for update in world.table.updates)


def test_a_slurmctld_that_does_not_answer_means_no_drain(world: World) -> None:
    world.table.deaf = True
    with pytest.raises(SlurmError):
        drain_or_alert(world.site, [FAULT])
    assert not world.table.updates


def test_a_slurmctld_that_falls_silent_while_we_wait_means_no_drain(world: World) -> None:
    site = sleeping(world, lambda: setattr(world.table, "deaf", True))
    with pytest.raises(SlurmError):
        drain_or_alert(site, [FAULT])
    assert world.own.state == "IDLE"


def test_where_others_use_both_fields_nothing_is_overwritten_and_nothing_drained(
    world: World,
) -> None:
    world.set(comment="rack 7", extra="theirs")
    assert not drain_or_alert(world.site, [FAULT])
    assert (world.own.comment, world.own.extra, world.own.state) == ("rack 7", "theirs", "IDLE")
    assert "could not be seen" in world.alerts[0]


def test_one_process_of_a_node_decides_at_a_time(world: World) -> None:
    with memory_folder(world.site.config, "t1", create=True) as folder:
        held = os.open(drain.LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600, dir_fd=folder)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        assert not drain_or_alert(world.site, [FAULT])
    finally:
        os.close(held)
    assert not world.table.updates


def test_marks_go_when_the_check_passes_again(world: World) -> None:
    world.set("t2", comment=MARKED)
    drain_or_alert(world.site, [FAULT, Fault("arrays", "x")])
    clear_marks(world.site, ["mounts"])
    assert world.own.comment.startswith(f"slurm_io:failing:arrays@{NOW_S}:")
    assert world.memory().marks == {"arrays": NOW_S}
    assert world.memory().open == {}
    clear_marks(world.site, ["arrays"])
    assert world.own.comment == ""


def test_clearing_touches_no_text_of_others(world: World) -> None:
    world.set(comment="rack 7")
    clear_marks(world.site, ["mounts"])
    assert world.own.comment == "rack 7"
    assert not world.table.updates


def drained(world: World) -> World:
    drain_or_alert(world.site, [FAULT])
    world.table.updates.clear()
    return world


def test_undrain_gives_back_what_we_drained(world: World) -> None:
    said = undrain(drained(world).site, {"mounts": "OK"})
    assert said.startswith("t1 is back in service")
    assert (world.own.state, world.own.comment) == ("IDLE", "")
    assert world.memory() == NodeMemory()


def refused(world: World, answers: Mapping[str, Any], text: str) -> None:
    said = undrain(world.site, answers)
    assert said.startswith("nothing done")
    assert text in said
    assert not any("State" in update for update in world.table.updates)


@pytest.mark.parametrize("answer", ["FAIL", "DEGRADED", "UNKNOWN"])
def test_undrain_needs_an_ok(world: World, answer: str) -> None:
    refused(drained(world), {"mounts": answer}, f"mounts answers {answer} still")


def test_undrain_needs_the_very_check(world: World) -> None:
    refused(drained(world), {"arrays": "OK"}, "mounts answers nothing still")


@pytest.mark.parametrize(
    "reason", ["broken fan", "", "NHC: slurm_io: mounts: x", "slurm_io mounts"]
)
def test_undrain_leaves_others_drains_alone(world: World, reason: str) -> None:
    drained(world).set(reason=reason)
    refused(world, {"mounts": "OK"}, "not ours")


def test_undrain_respects_what_was_added_to_our_reason(world: World) -> None:
    drained(world).set(reason=world.own.reason + ":do not touch, Ada")
    refused(world, {"mounts": "OK"}, "somebody added")


@pytest.mark.parametrize("state", ["DOWN+DRAIN", "IDLE+DRAIN+MAINT", "IDLE+DRAIN+NOT_RESPONDING"])
def test_undrain_leaves_a_node_with_other_troubles(world: World, state: str) -> None:
    drained(world).set(state=state)
    refused(world, {"mounts": "OK"}, "as well")


def test_undrain_of_a_node_in_service_does_nothing_but_take_marks_back(world: World) -> None:
    world.set("t2", comment=MARKED)
    drain_or_alert(world.site, [FAULT])
    refused(world, {"mounts": "OK"}, "not drained")
    assert world.own.comment == ""


def test_undrain_says_when_slurm_did_not_follow(world: World) -> None:
    drained(world)
    world.table.update = lambda node, values: None  # type: ignore[method-assign]
    assert "still shows IDLE+DRAIN" in undrain(world.site, {"mounts": "OK"})


def test_undrain_looks_last_at_the_very_node_and_again_afterwards(world: World) -> None:
    """Slurm has no comparison: nothing may stand between the look and the resume."""
    drained(world)
    calls: list[str] = []
    look, update = world.table.read_one, world.table.update

    def looked(node: str) -> NodeState | None:
        calls.append(f"look at {node}")
        return look(node)

    def updated(node: str, values: Mapping[str, str]) -> None:
        calls.append(f"{values}")
        update(node, values)

    world.table.read_one, world.table.update = looked, updated  # type: ignore[method-assign]
    undrain(world.site, {"mounts": "OK"})
    assert calls[:3] == ["look at t1", "{'State': 'RESUME'}", "look at t1"]


def test_undrain_says_who_drained_the_node_in_that_moment_and_leaves_it(world: World) -> None:
    drained(world)
    update = world.table.update

    def and_an_admin_drains(node: str, values: Mapping[str, str]) -> None:
        update(node, values)
        if values.get("State") == "RESUME":
            world.set(state="IDLE+DRAIN", reason="broken fan", reason_at_s=NOW_S)

    world.table.update = and_an_admin_drains  # type: ignore[method-assign]
    said = undrain(world.site, {"mounts": "OK"})
    assert said.startswith("t1 was resumed, but somebody drained it again in that moment")
    assert "(broken fan)" in said
    assert (world.own.state, world.own.reason) == ("IDLE+DRAIN", "broken fan")


def test_memory_of_a_users_making_is_not_read(world: World) -> None:
    folder = world.root / "lib" / "t1"
    remember(world.site.config, "t1", NodeMemory(open={"mounts": NOW_S}))
    assert world.memory().open
    os.chown(folder, 5, 60)
    assert world.memory() == NodeMemory()


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"marks": 3}', '{"stuck": {"a": [1]}}', "null", "7"]
)
def test_a_broken_memory_is_none(world: World, text: str) -> None:
    remember(world.site.config, "t1", NodeMemory())
    (world.root / "lib" / "t1" / "checks.json").write_text(text)
    assert world.memory() == NodeMemory()


def test_children_that_have_died_are_forgotten(world: World) -> None:
    remember(world.site.config, "t1", NodeMemory({"mounts": ((2**22, 1),)}))
    assert world.memory().stuck == {}
