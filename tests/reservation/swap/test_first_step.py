"""The first step after a swap, and what work was lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from slurm_io.reservation.swap.model import SwapAnswer, Wish
from slurm_io.reservation.swap.run import swap
from slurm_io.reservation.swap.world import SeenSteps
from tests.reservation.swap.fake import NAME
from tests.reservation.swap.lab import Lab, filler, lab, lose, training

WISH = Wish(NAME)


def swap_with_steps(it: Lab, before: SeenSteps, after: SeenSteps) -> SwapAnswer:
    """The job's output shows these, before it was requeued and after it started again."""

    def steps(job: object) -> SeenSteps:
        return after if it.slurm.jobs_["10"].state == "RUNNING" else before

    return swap(replace(it.world, read_steps=steps), WISH)


def test_lost_work_is_told_from_the_jobs_output(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), filler())
    lose(it.slurm, "t3")
    answer = swap_with_steps(it, before=SeenSteps(1, 1, 47), after=SeenSteps(2, 31, 33))
    facts = answer.facts
    assert (facts.step_before, facts.step_after, facts.lost_steps) == (47, 31, 17)
    assert "shows step 33" in facts.first_step_by and "first_step" in facts.phases


def test_a_training_that_found_no_checkpoint_is_noted(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), filler())
    lose(it.slurm, "t3")
    answer = swap_with_steps(it, before=SeenSteps(1, 1, 47), after=SeenSteps(2, 1, 2))
    assert answer.facts.lost_steps == 47
    assert any("found no checkpoint" in note for note in answer.facts.notes)


def test_without_output_it_says_so_and_lost_work_is_unknown(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), filler())
    lose(it.slurm, "t3")
    facts = swap(it.world, WISH).facts
    assert facts.lost_steps is None and "no output here" in str(facts.lost_why)
    assert facts.first_step_by == "RUNNING for 15 s; no step seen, no output here"


def test_an_output_in_an_unknown_form_is_no_reason_to_roll_back(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), filler())
    lose(it.slurm, "t3")
    answer = swap(replace(it.world, read_steps=lambda job: SeenSteps()), WISH)
    assert answer.state == "done" and "its output shows none" in answer.facts.first_step_by


def test_a_training_that_runs_and_makes_no_step_is_for_a_person(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), filler())
    lose(it.slurm, "t3")

    def steps(job: object) -> SeenSteps:
        running = it.slurm.jobs_["10"].state == "RUNNING"
        return SeenSteps() if running else SeenSteps(1, 1, 47)

    answer = swap(replace(it.world, read_steps=steps), WISH)
    assert (answer.state, answer.exit_code) == ("partial", 1)
    assert "no step within 300 s" in answer.text
    assert it.slurm.reservation_.nodes == ("t1", "t2", "t4")  # the job runs there
