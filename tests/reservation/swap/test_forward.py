"""A swap from evidence to first step, in the ways it can go well."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_io.reservation.history import History
from slurm_io.reservation.swap.model import Wish
from slurm_io.reservation.swap.run import swap
from slurm_io.slurm.infos import Reason
from tests.reservation.swap.fake import NAME
from tests.reservation.swap.lab import filler, lab, lose, training

WISH = Wish(NAME)


def test_a_lost_node_is_swapped_and_the_job_runs_on(tmp_path: Path) -> None:
    """Filler holds the spare, so Slurm alone cannot start the job again."""
    it = lab(tmp_path, training(), filler())
    lose(it.slurm, "t2")
    answer = swap(it.world, Wish(NAME, bad="t2"))
    assert (answer.state, answer.exit_code) == ("done", 0), answer
    job = it.slurm.jobs_["10"]
    assert job.state == "RUNNING" and sorted(job.nodes) == ["t1", "t3", "t4"]
    assert it.slurm.reservation_.nodes == ("t1", "t3", "t4")
    assert it.slurm.nodes_["t2"].is_drained
    reason = it.slurm.nodes_["t2"].reason
    assert reason is not None and reason.text.startswith("slurm_io: swap to ")
    assert "Not responding" in reason.text
    assert not it.slurm.jobs_["20"].is_held  # filler goes on when it can
    (record,) = History(str(tmp_path), NAME).read()
    assert (record.kind, record.bad, record.spare, record.outcome) == ("swap", "t2", "t4", "done")
    assert record.phases["detect"] >= 100 and "clear" in record.phases


def test_the_delay_of_a_requeue_is_taken_away(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), filler())
    lose(it.slurm, "t2")
    answer = swap(it.world, WISH)
    assert answer.facts.phases["requeue"] < 60  # 120 s by Slurm
    assert any("start_s=0" in line for line in it.slurm.log)


def test_a_standby_node_comes_in_and_the_bad_one_goes_in_one_update(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), standby="t5")
    it.slurm.reservation_ = replace(it.slurm.reservation_, nodes=("t1", "t2", "t3"))
    lose(it.slurm, "t3")
    answer = swap(it.world, WISH)
    assert answer.state == "done" and answer.facts.spare == "t5"
    assert [line for line in it.slurm.log if line.startswith("res")] == ["reservation +t5 -t3"]
    assert sorted(it.slurm.jobs_["10"].nodes) == ["t1", "t2", "t5"]


def test_a_pin_on_the_bad_node_is_taken_away_and_no_other(tmp_path: Path) -> None:
    it = lab(tmp_path, training(pinned_to=("t1", "t2")))
    lose(it.slurm, "t2")
    assert swap(it.world, WISH).state == "done"
    assert it.slurm.jobs_["10"].pinned_to == ("t1",)


def test_a_job_that_still_runs_on_a_drained_node_is_requeued_by_us(tmp_path: Path) -> None:
    it = lab(tmp_path, training())
    text = Reason("bad DIMM", "alice", int(it.slurm.clock.now_s() - 60))
    it.slurm.nodes_["t3"] = replace(
        it.slurm.nodes_["t3"], base="ALLOCATED", flags=("DRAIN",), reason=text
    )
    answer = swap(it.world, WISH)
    assert answer.state == "done" and "requeue 10" in it.slurm.log
    assert it.slurm.nodes_["t3"].reason == text  # somebody else's drain stays theirs
    assert not any(line.startswith("drain") for line in it.slurm.log)
    assert (answer.facts.former, answer.facts.spare) == (("t1", "t2", "t3"), "t4")


def test_a_silent_node_is_set_down_so_that_slurm_lets_go_of_the_job(tmp_path: Path) -> None:
    it = lab(tmp_path, training())
    it.slurm.nodes_["t3"] = replace(it.slurm.nodes_["t3"], flags=("NOT_RESPONDING",))
    answer = swap(it.world, WISH)
    assert answer.state == "done"
    assert [line.split()[0] for line in it.slurm.log][:2] == ["drain", "down"]
    assert answer.facts.phases["detect"] >= 30  # Slurm does not say since when: we waited


def test_what_the_watch_waited_before_is_part_of_the_phases(tmp_path: Path) -> None:
    it = lab(tmp_path, training())
    it.slurm.nodes_["t3"] = replace(it.slurm.nodes_["t3"], flags=("NOT_RESPONDING",))
    since_s = it.slurm.clock.now_s() - 90.0
    answer = swap(it.world, Wish(NAME, bad="t3", force=True, since_s=since_s))
    assert answer.facts.phases["detect"] >= 90 and answer.facts.failed_at_s == since_s
    (record,) = History(it.world.config.state_dir, NAME).read()
    assert record.at_s == since_s
    took_s = (answer.facts.running_at_s or 0.0) - since_s
    assert sum(record.phases.values()) == pytest.approx(took_s, abs=1.0)


def test_a_node_whose_health_fails_twice_is_swapped(tmp_path: Path) -> None:
    it = lab(tmp_path, training())
    sick = replace(it.nodes.well("t1"), health={"disk": ("FAIL", "md0 lost a member")})
    it.nodes.says["t1"] = sick
    answer = swap(it.world, WISH)
    assert answer.state == "done" and "disk FAILs twice" in answer.facts.evidence
    assert it.nodes.asked.count("t1") >= 2 and it.slurm.nodes_["t1"].is_drained


def test_one_failed_answer_is_no_evidence(tmp_path: Path) -> None:
    it = lab(tmp_path, training())
    it.nodes.says["t1"] = replace(it.nodes.well("t1"), health={"disk": ("FAIL", "x")})
    it.slurm.happens.append((0.0, lambda slurm: it.nodes.says.clear()))
    answer = swap(it.world, WISH)
    assert (answer.state, it.slurm.log) == ("nothing", [])


def test_a_job_that_slurm_restarted_needs_no_spare(tmp_path: Path) -> None:
    it = lab(tmp_path, training(nodes=("t1", "t3", "t4"), restarts=1))
    lose(it.slurm, "t2")
    answer = swap(it.world, WISH)
    assert answer.state == "done" and answer.facts.spare is None
    assert it.slurm.reservation_.nodes == ("t1", "t3", "t4")
    assert it.nodes.verified == []


def test_without_a_job_only_the_reservation_changes(tmp_path: Path) -> None:
    it = lab(tmp_path, filler())
    lose(it.slurm, "t2")
    answer = swap(it.world, WISH)
    assert answer.state == "done" and answer.facts.job is None
    assert "t2" not in it.slurm.reservation_.nodes


def test_the_choice_tells_how_long_it_will_take(tmp_path: Path) -> None:
    it = lab(tmp_path, training())
    lose(it.slurm, "t2")
    first = {each.name: each.text for each in swap(it.world, WISH).steps}
    assert "from a failure to the first step, partly by usual figures" in first["choose"]


def test_an_idle_node_outside_is_sooner_than_a_busy_one_inside(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), filler(), standby="t5")
    lose(it.slurm, "t2")
    assert swap(it.world, WISH).facts.spare == "t5"
    assert it.slurm.jobs_["20"].state == "RUNNING"


def test_a_job_that_slurm_is_requeuing_at_this_moment_is_still_the_one(tmp_path: Path) -> None:
    """It has lost two of its nodes by now, the bad one among them, and is called RUNNING."""
    it = lab(tmp_path, training(nodes=("t1",)), filler())
    lose(it.slurm, "t2")
    requeued = {"state": "PENDING", "nodes": (), "restarts": 1}
    it.slurm.happens.append(
        (
            it.slurm.clock.now_s() + 3,
            lambda slurm: slurm.jobs_.update({"10": replace(slurm.jobs_["10"], **requeued)}),
        )
    )
    answer = swap(it.world, WISH)
    assert (answer.state, answer.facts.job, answer.facts.spare) == ("done", "10", "t4"), answer
    assert sorted(it.slurm.jobs_["10"].nodes) == ["t1", "t3", "t4"]


def test_grace_during_slurm_s_own_requeue_is_not_counted_twice(tmp_path: Path) -> None:
    """Slurm requeued the job at the failure; the phases tell the time since then once."""
    it = lab(tmp_path, training(), filler())
    lose(it.slurm, "t2", since_s=1.0)
    facts = swap(it.world, WISH).facts
    assert facts.failed_at_s is not None and facts.first_step_at_s is not None
    assert facts.phases["detect"] >= 29
    assert sum(facts.phases.values()) <= facts.first_step_at_s - facts.failed_at_s + 1
