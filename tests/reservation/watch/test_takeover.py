"""When a watch wants a node swapped out, and when it stands still."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_io.reservation.watch.memory import Memory, memory_of
from slurm_io.slurm.infos import JobInfo
from tests.reservation.watch.scripted import TRAINING, ScriptedWorld, Watching, answers, names


@pytest.fixture
def watching() -> Watching:
    watching = Watching()
    assert watching.look() == []
    return watching


def swap_t2(since_s: int = 1_000_060) -> tuple[str, ...]:
    """Started for t2, which was bad from then on: as a rule from the second look."""
    waited = (
        "--yes",
        "--force",
        f"--since={since_s:.3f}",
    )  # as exact as the phases it is summed with
    return ("spare", "swap", "train", "t2", "--job", "7", *waited)


def kill(world: ScriptedWorld, node: str) -> None:
    world.set(node, "ALLOCATED", "NOT_RESPONDING")


def test_blip_shorter_than_the_grace_starts_nothing(watching: Watching) -> None:
    kill(watching.world, "t2")
    began = watching.looks(2)
    watching.world.set("t2", "ALLOCATED")
    assert names(began) == ["looks-bad"]
    assert names(watching.looks(5)) == ["looks-well"]


def test_node_that_stays_bad_is_suggested_once(watching: Watching) -> None:
    kill(watching.world, "t2")
    events = watching.looks(20)
    assert names(events) == ["looks-bad", "suggest-swap"]
    assert (
        "slurm-io spare swap train t2 --job 7 --yes" in events[1].text and "job 7" in events[1].text
    )
    assert len(watching.world.alerts) == 1 and watching.world.started == []


def test_suggestion_is_not_repeated_by_a_watch_that_was_restarted(watching: Watching) -> None:
    kill(watching.world, "t2")
    watching.looks(4)
    watching.memory = memory_of(watching.memory.to_json())
    assert watching.looks(3) == []


def test_second_trouble_of_the_same_node_is_told_again(watching: Watching) -> None:
    kill(watching.world, "t2")
    watching.looks(4)
    watching.world.set("t2", "ALLOCATED")
    watching.looks(2)
    kill(watching.world, "t2")
    assert "suggest-swap" in names(watching.looks(4))


def test_auto_swaps_once_and_nothing_else_is_done_while_it_runs(watching: Watching) -> None:
    watching.policy = "auto"
    kill(watching.world, "t2")
    assert names(watching.looks(10)) == ["looks-bad", "swap"]
    assert watching.world.started == [swap_t2()]
    assert watching.memory.tasks["swap t2"].pid == 1


def test_swap_that_ended_and_left_the_node_in_calls_a_person_and_is_not_tried_again(
    watching: Watching,
) -> None:
    watching.policy = "auto"
    kill(watching.world, "t2")
    watching.looks(4)
    watching.world.running.clear()
    events = watching.looks(10)
    assert names(events) == ["ended", "situation"] and events[1].person
    assert len(watching.world.started) == 1


def test_swap_that_could_not_be_started_is_told_once_and_tried_again(watching: Watching) -> None:
    watching.policy = "auto"
    watching.world.start_fails = True
    kill(watching.world, "t2")
    events = watching.looks(10)
    assert names(events) == ["looks-bad", "failed"] and events[1].person
    watching.world.start_fails = False
    watching.looks(2)
    assert watching.world.started == [swap_t2()]


def test_after_a_swap_the_watch_is_quiet(watching: Watching) -> None:
    watching.policy = "auto"
    kill(watching.world, "t2")
    watching.looks(4)
    world = watching.world
    world.running.clear()
    world.members = ("t1", "t3", "t4", "t5")
    world.jobs = (replace(TRAINING, nodes=("t1", "t3", "t4")),)
    assert names(watching.looks(5)) == ["ended"]


def test_requeued_job_that_waits_is_in_need(watching: Watching) -> None:
    watching.policy = "auto"
    watching.world.set("t2", "DOWN", reason="Not responding")
    watching.world.jobs = (replace(TRAINING, state="PENDING", nodes=(), node_count=3),)
    watching.looks(4)
    assert watching.world.started == [swap_t2()]


def test_watch_started_after_the_failure_finds_the_job_by_its_failed_node() -> None:
    watching = Watching(policy="auto")
    watching.world.set("t2", "DOWN")
    watching.world.jobs = (JobInfo("7", "PENDING", node_count=3, failed_node="t2"),)
    watching.looks(4)
    assert watching.world.started == [swap_t2(1_000_030)]


def test_bad_node_that_no_job_needs_is_for_a_person(watching: Watching) -> None:
    watching.policy = "auto"
    watching.world.set("t4", "DOWN")
    watching.world.states["t4"] = "unhealthy"
    events = watching.looks(5)
    assert "spare remove" in events[1].text or "spare remove" in events[2].text
    assert watching.world.started == []


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("pins", [(), ("t2",)])
def test_job_that_waits_for_more_nodes_than_are_well_is_in_need(
    is_held: bool, pins: tuple[str, ...]
) -> None:
    """After a swap that was rolled back: a new watch, and Slurm names no failed node."""
    watching = Watching(policy="auto")
    world = watching.world
    world.set("t2", "DOWN")
    world.states["t4"] = "ready" if pins else "stale"
    waiting = replace(TRAINING, state="PENDING", nodes=(), node_count=3, is_held=is_held)
    world.jobs = (replace(waiting, pinned_to=pins),)
    watching.looks(4)
    assert world.started == [swap_t2(1_000_030)]


def test_job_that_waits_and_has_nodes_enough_needs_no_swap() -> None:
    """The spare is ready: Slurm starts it without the bad node, when somebody releases it."""
    watching = Watching()
    watching.world.set("t2", "DOWN")
    held = replace(TRAINING, state="PENDING", nodes=(), node_count=3, is_held=True)
    watching.world.jobs = (held,)
    told = watching.looks(4)[-1].text
    assert "no protected job" not in told and "scontrol release 7" in told, told


def test_job_that_waits_behind_another_one_needs_no_bad_spare(watching: Watching) -> None:
    watching.world.set("t4", "DOWN")
    watching.world.states["t4"] = "unhealthy"
    behind = JobInfo("8", "PENDING", reservation="train", node_count=3, reason="Dependency")
    watching.world.jobs += (behind,)
    assert "suggest-swap" not in names(watching.looks(5))


def test_cancelled_job_needs_no_swap(watching: Watching) -> None:
    watching.policy = "auto"
    kill(watching.world, "t2")
    watching.look()
    watching.world.jobs = ()
    watching.looks(5)
    assert watching.world.started == []


def test_three_bad_nodes_stand_still(watching: Watching) -> None:
    watching.policy = "auto"
    for node in ("t1", "t2", "t3"):
        kill(watching.world, node)
    events = watching.looks(10)
    assert names(events) == ["looks-bad"] * 3 + ["standstill"]
    assert watching.world.started == [] and len(watching.world.alerts) == 1


def test_two_bad_nodes_are_swapped_one_after_the_other(watching: Watching) -> None:
    watching.policy = "auto"
    kill(watching.world, "t1")
    kill(watching.world, "t2")
    watching.looks(5)
    assert len(watching.world.started) == 1
    watching.world.running.clear()
    watching.world.members = ("t2", "t3", "t4")
    watching.looks(2)
    assert watching.world.started[1] == swap_t2()


def test_controller_that_is_down_stops_all_and_the_grace_begins_anew(watching: Watching) -> None:
    watching.policy = "auto"
    kill(watching.world, "t2")
    watching.look()
    watching.world.unreachable = True
    assert names(watching.looks(4)) == ["standstill"]
    watching.world.unreachable = False
    watching.looks(2)
    assert watching.world.started == []
    watching.looks(2)
    assert len(watching.world.started) == 1


def test_gap_between_two_looks_is_no_evidence(watching: Watching) -> None:
    watching.policy = "auto"
    kill(watching.world, "t2")
    watching.look()
    watching.look(after_s=3600)
    assert watching.world.started == []


def test_somebody_who_holds_the_lock_is_left_alone(watching: Watching) -> None:
    watching.policy = "auto"
    watching.world.lock_holder = "a swap by pid 5 on head"
    kill(watching.world, "t2")
    assert names(watching.looks(6)) == ["looks-bad", "standstill"]
    assert watching.world.started == []
    watching.world.lock_holder = None
    watching.look()
    assert len(watching.world.started) == 1


def test_health_counts_from_the_second_answer_in_a_row(watching: Watching) -> None:
    fail = {"arrays": ("FAIL", "md0 lost a member")}
    watching.world.says["t2"] = answers("t2", 1.0, health=fail)
    assert watching.looks(5) == []
    watching.world.says["t2"] = answers("t2", 2.0, health=fail)
    events = watching.looks(4)
    assert names(events) == ["looks-bad", "suggest-swap"] and "md0 lost" in events[1].text


def test_health_that_was_fine_in_between_starts_from_nought(watching: Watching) -> None:
    fail = {"arrays": ("FAIL", "md0 lost a member")}
    for at_s, health in enumerate((fail, {}, fail, {})):
        watching.world.says["t2"] = answers("t2", 1.0 + at_s, health=health)
        assert watching.looks(3) == []


def test_answer_that_did_not_come_says_nothing_of_health(watching: Watching) -> None:
    for at_s in range(5):
        watching.world.says["t2"] = answers("t2", float(at_s), data=None, problem="no answer")
        assert watching.looks(3) == []


@pytest.mark.parametrize(
    ("flags", "reason", "event"),
    [
        (("DRAIN",), "slurm_io: md0 lost a member", "suggest-swap"),
        (("DRAIN",), "Kill task failed", "suggest-swap"),
        (("DRAIN",), "NHC: check_hw_mcelog", "suggest-swap"),
        (("DRAIN",), "new firmware on Monday", "situation"),
        (("MAINT", "DRAIN"), "Kill task failed", "situation"),
        (("REBOOT_REQUESTED",), "", "situation"),
        (("FAIL",), "", "suggest-swap"),
    ],
)
def test_only_a_nodes_own_fault_is_a_reason(
    watching: Watching, flags: tuple[str, ...], reason: str, event: str
) -> None:
    watching.world.set("t2", "MIXED", *flags, reason=reason)
    assert names(watching.looks(6)) == ["looks-bad", event]


def test_failure_that_outlasts_the_grace_is_recorded_once(watching: Watching) -> None:
    kill(watching.world, "t2")
    watching.look()
    assert watching.world.records == []
    watching.looks(10)
    assert [(each.kind, each.bad) for each in watching.world.records] == [("failure", "t2")]


def test_outage_that_outlasts_a_gap_of_the_watch_is_recorded_once(watching: Watching) -> None:
    kill(watching.world, "t2")
    watching.looks(5)
    watching.memory = memory_of(watching.memory.to_json())
    watching.look(after_s=5 * 3600)
    watching.looks(5)
    assert len(watching.world.records) == 1
    watching.world.set("t2", "ALLOCATED")
    watching.look()
    kill(watching.world, "t2")
    watching.looks(5)
    assert len(watching.world.records) == 2


def test_memory_is_bounded() -> None:
    memory = Memory(said={f"key {number}": 1.0 for number in range(100_000)})
    assert len(memory_of(memory.to_json()).said) <= 2000
