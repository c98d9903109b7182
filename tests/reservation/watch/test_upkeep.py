"""How a watch keeps spares fresh, proven, enough, and at work."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from slurm_io.slurm.infos import JobInfo
from tests.reservation.watch.scripted import (
    SETTINGS,
    TRAINING,
    ScriptedWorld,
    Watching,
    answers,
    names,
)

FILLED = replace(SETTINGS, filler_script="/site/filler.sh", filler_user="evals")


@pytest.fixture
def watching() -> Watching:
    """Policy auto."""
    watching = Watching(policy="auto")
    assert watching.look() == []
    return watching


@pytest.fixture
def filling() -> Watching:
    """With a filler script."""
    return Watching(ScriptedWorld(FILLED))


def filler_job(job_id: str = "101", state: str = "RUNNING", user: str = "evals") -> JobInfo:
    nodes = ("t4",) if state == "RUNNING" else ()
    return JobInfo(
        job_id, state, partition="filler", reservation="train", nodes=nodes, pinned_to=("t4",),
        comment="slurm_io-filler train", user=user,
    )  # fmt: skip


def test_stale_spare_is_staged_once_and_again_only_after_a_pause(watching: Watching) -> None:
    watching.world.states["t4"] = "stale"
    watching.looks(5)
    assert watching.world.started == [("spare", "add", "train", "t4")]
    watching.world.running.clear()
    watching.looks(10)
    assert len(watching.world.started) == 1
    watching.looks(15)
    assert len(watching.world.started) == 2


def test_staging_is_only_said_under_suggest(watching: Watching) -> None:
    watching.policy = "suggest"
    watching.world.states["t4"] = "stale"
    events = watching.looks(10)
    assert "suggest-stage" in names(events) and watching.world.started == []


def test_stale_standby_node_is_staged_where_it_is_and_stays_outside(watching: Watching) -> None:
    watching.world.standby = ("t5",)
    watching.world.states["t5"] = "stale"
    watching.looks(3)
    (started,) = watching.world.started
    assert started == (
        "dataset", "stage", "c4", "--to", "t5", "--reservation", "train", "--tier", "local",
    )  # fmt: skip


def test_standby_node_that_was_bad_is_proven_where_it_is(watching: Watching) -> None:
    world = watching.world
    world.standby = ("t5",)
    world.set("t5", "DOWN")
    watching.looks(2)
    world.set("t5", "IDLE")
    watching.look()
    assert world.started == [("spare", "add", "train", "t5", "--stay-outside")]


def test_what_is_suggested_for_a_standby_node_leaves_it_outside(watching: Watching) -> None:
    watching.policy = "suggest"
    watching.world.standby = ("t5",)
    watching.world.states["t5"] = "stale"
    told = [event for event in watching.looks(3) if event.event == "suggest-stage"]
    assert "slurm-io dataset stage c4 --to t5 --reservation train" in told[0].text


def test_spare_that_a_job_is_about_to_take_is_not_staged(watching: Watching) -> None:
    watching.world.states["t4"] = "stale"
    watching.world.jobs += (JobInfo("8", "PENDING", reservation="train", node_count=1),)
    watching.looks(5)
    assert watching.world.started == []


def test_only_one_spare_is_staged_at_a_time(watching: Watching) -> None:
    watching.world.members += ("t5", "t6")
    watching.world.states = {"t4": "stale", "t5": "stale", "t6": "ready"}
    watching.look()
    assert len(watching.world.started) == 1


def test_returned_node_is_not_trusted_until_read_in_full(watching: Watching) -> None:
    """It was bad, it looks well, its record says ready: a proof from before means nothing."""
    world = watching.world
    world.set("t4", "DOWN")
    watching.looks(2)
    world.set("t4", "IDLE")
    world.says["t4"] = answers("t4", watching.now_s + 30)
    assert world.says["t4"].data is not None
    old = replace(world.says["t4"].data, age_s=500.0)
    world.says["t4"] = replace(world.says["t4"], data=old)
    watching.look()
    assert world.started == [("spare", "add", "train", "t4")]


@pytest.mark.parametrize(("level", "age_s", "trusted"), [(4, 1.0, True), (1, 1.0, False)])
def test_only_a_full_read_after_the_trouble_makes_it_trusted(
    watching: Watching, level: int, age_s: float, trusted: bool
) -> None:
    world = watching.world
    world.set("t4", "DOWN")
    watching.looks(2)
    world.set("t4", "IDLE")
    says = answers("t4", watching.now_s + 30)
    assert says.data is not None
    world.says["t4"] = replace(says, data=replace(says.data, level=level, age_s=age_s))
    watching.look()
    assert (world.started == []) is trusted


def test_repaired_node_comes_back_as_a_spare_when_one_is_missing(watching: Watching) -> None:
    world = watching.world
    world.set("t2", "DOWN")
    watching.looks(4)  # auto swaps
    world.running.clear()
    world.members = ("t1", "t3", "t4")
    world.jobs = (replace(TRAINING, nodes=("t1", "t3", "t4")),)
    told = watching.looks(2)
    assert any("no repaired node" in event.text for event in told)
    world.set("t2", "IDLE")
    watching.looks(3)
    assert world.started[1:] == [("spare", "add", "train", "t2")]


def test_filler_is_submitted_once_for_a_ready_spare(filling: Watching) -> None:
    filling.look()
    filling.world.filler = filling.world.jobs = (filler_job(),)
    filling.world.jobs = (TRAINING,)
    assert filling.looks(20) == []
    assert filling.world.fillers == ["t4"]


@pytest.mark.parametrize("state", ["stale", "unhealthy", "unknown", "syncing", "busy"])
def test_no_filler_on_a_spare_that_is_not_ready(filling: Watching, state: str) -> None:
    filling.world.states["t4"] = state  # type: ignore[assignment]
    filling.looks(5)
    assert filling.world.fillers == []


def test_no_filler_where_a_protected_job_is_about_to_start(filling: Watching) -> None:
    filling.world.jobs += (JobInfo("8", "PENDING", reservation="train", node_count=1),)
    filling.looks(5)
    assert filling.world.fillers == []


def test_filler_that_ends_at_once_waits_longer_each_time(filling: Watching) -> None:
    submitted_at = []
    for _ in range(100):
        before = len(filling.world.fillers)
        filling.look()
        if len(filling.world.fillers) > before:
            submitted_at.append(filling.now_s)
    pauses_s = [after - before for before, after in itertools.pairwise(submitted_at)]
    assert pauses_s == [330.0, 630.0, 1230.0]


def test_submission_that_fails_is_told_and_waits(filling: Watching) -> None:
    filling.world.filler_fails = True
    assert names(filling.looks(10)) == ["failed"]


def test_filler_that_harms_its_spare_is_ended_and_not_replaced(filling: Watching) -> None:
    filling.look()
    filling.world.filler = (filler_job(),)
    filling.look()
    filling.world.states["t4"] = "stale"
    filling.look()
    assert filling.world.cancelled == ["101"] and len(filling.world.alerts) >= 1
    filling.world.filler = ()
    filling.world.states["t4"] = "ready"
    filling.looks(100)
    assert filling.world.fillers == ["t4"]


def test_filler_whose_jobs_would_be_protected_ones_is_not_submitted() -> None:
    filling = Watching(ScriptedWorld(replace(FILLED, filler_partitions=())))
    events = filling.looks(5)
    assert names(events) == ["situation"] and filling.world.fillers == []


def test_filler_that_waits_again_after_a_swap_is_not_doubled(filling: Watching) -> None:
    filling.look()
    filling.world.filler = (filler_job(state="PENDING"),)
    filling.looks(20)
    assert filling.world.fillers == ["t4"]


def test_a_users_job_with_our_comment_is_no_filler_of_ours(filling: Watching) -> None:
    """It neither keeps ours away nor is it ended for what it looks like."""
    filling.world.filler = (filler_job("900", state="PENDING", user="mallory"),)
    filling.look()
    assert filling.world.fillers == ["t4"]
