"""What others do while a swap is under way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from slurm_io.errors import SlurmRefused
from slurm_io.reservation.history import History
from slurm_io.reservation.model import Answer
from slurm_io.reservation.swap.model import Wish
from slurm_io.reservation.swap.run import swap
from tests.reservation.swap.fake import NAME
from tests.reservation.swap.lab import filler, lab, lose, training

WISH = Wish(NAME)


def _schedule(slurm: object) -> None:
    slurm.schedules = True  # type: ignore[attr-defined]


def test_a_spare_drained_meanwhile_is_given_up(tmp_path: Path) -> None:
    """Between its choice and its clearing."""
    it = lab(tmp_path, training(), standby="t5")
    lose(it.slurm, "t3")
    real = it.nodes.ask

    def drain_then_answer(*given: object, **more: object) -> dict[str, Answer]:
        it.slurm.drain("t4", "NHC: ib0 down")
        it.nodes.__dict__.pop("ask", None)
        return real(*given, **more)  # type: ignore[arg-type]

    it.slurm.schedules = False
    it.slurm.jobs_["10"] = replace(it.slurm.jobs_["10"], pinned_to=("t1",))
    it.nodes.ask = drain_then_answer  # type: ignore[method-assign]
    it.slurm.happens.append((it.slurm.clock.now_s() + 1, _schedule))
    answer = swap(it.world, Wish(NAME, bad="t3"))
    assert (answer.state, answer.facts.spare) == ("done", "t5"), answer
    assert answer.facts.tried[0][0] == "t4" and "ib0 down" in answer.facts.tried[0][1]


def test_a_spare_whose_prolog_fails_is_taken_out_of_the_way(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), standby="t5")
    it.slurm.nodes_["t3"] = replace(it.slurm.nodes_["t3"], flags=("NOT_RESPONDING",))
    it.slurm.prolog_fails_on.add("t4")
    answer = swap(it.world, Wish(NAME, release=True))
    assert (answer.state, answer.facts.spare) == ("done", "t5"), answer
    assert "Prolog error" in answer.facts.tried[0][1]
    assert "release 10" in it.slurm.log


def test_a_job_held_by_slurm_is_released_only_when_asked(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), standby="t5")
    it.slurm.nodes_["t3"] = replace(it.slurm.nodes_["t3"], flags=("NOT_RESPONDING",))
    it.slurm.prolog_fails_on.add("t4")
    answer = swap(it.world, WISH)
    assert (answer.state, answer.exit_code) == ("partial", 1)
    assert "release 10" not in it.slurm.log and "held" in answer.text


def test_a_job_that_its_user_cancels_ends_the_watch(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), filler())
    lose(it.slurm, "t3")
    it.slurm.schedules = False
    it.slurm.happens.append((it.slurm.clock.now_s() + 20, lambda slurm: slurm.cancel("10")))
    answer = swap(it.world, WISH)
    assert answer.state == "done" and "cancelled meanwhile" in answer.text
    assert it.slurm.reservation_.nodes == ("t1", "t2", "t4")
    assert not it.slurm.jobs_["20"].is_held


def test_a_job_that_does_not_come_back_is_rolled_back_and_a_person_called(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), filler())
    lose(it.slurm, "t3")
    it.slurm.schedules = False
    answer = swap(it.world, WISH)
    assert (answer.state, answer.exit_code) == ("rolled-back", 3)
    assert sorted(it.slurm.reservation_.nodes) == ["t1", "t2", "t3", "t4"]
    assert it.slurm.nodes_["t3"].is_drained  # it is down still
    assert not it.slurm.jobs_["20"].is_held
    (record,) = History(str(tmp_path), NAME).read()
    assert record.outcome.startswith("job 10 made no step within 300 s")


def test_an_administrators_change_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), filler())
    lose(it.slurm, "t3")

    def change(slurm: object) -> None:
        it.slurm.reservation_ = replace(it.slurm.reservation_, nodes=("t1", "t2", "t3", "t4", "t5"))

    it.slurm.broken["after requeue"] = []
    old = it.slurm.requeue

    def requeue(job_id: str, hold: bool = False) -> object:
        change(None)
        return old(job_id, hold)

    it.slurm.requeue = requeue  # type: ignore[assignment,method-assign]
    answer = swap(it.world, WISH)
    assert answer.state == "rolled-back" and "somebody changed it" in answer.text
    assert it.slurm.reservation_.nodes == ("t1", "t2", "t3", "t4", "t5")
    assert not it.slurm.jobs_["20"].is_held


def test_a_refused_reservation_update_takes_the_rest_back(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), filler())
    lose(it.slurm, "t3")
    it.slurm.broken["change"] = [SlurmRefused("no rights")]
    answer = swap(it.world, WISH)
    assert answer.state == "rolled-back" and "no rights" in answer.text
    assert not it.slurm.jobs_["20"].is_held
