"""Spares that cannot take over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_io.reservation.model import Answer, DataSays
from slurm_io.reservation.swap.model import Wish
from slurm_io.reservation.swap.run import swap
from slurm_io.slurm.infos import Reason
from tests.reservation.swap.fake import NAME
from tests.reservation.swap.lab import filler, lab, lose, training

WISH = Wish(NAME)


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ({"problem": "no answer within 30 s"}, "no answer"),
        ({"health": {"disk": ("FAIL", "gone")}}, "disk FAILs"),
        ({"data": None}, "could not be looked at"),
        ({"data": DataSays("c1-a", "copying", 0, None, 7, 1)}, "copying"),
        ({"data": DataSays("c1-b", "ready", 4, 1.0, 0, 0)}, "version c1-b"),
        ({"drift": {"driver": "550"}}, "driver 550"),
        ({"asked_at_s": 1.0}, "old"),
    ],
)
def test_a_spare_that_is_not_fit_is_passed_over(
    tmp_path: Path, says: dict[str, object], why: str
) -> None:
    it = lab(tmp_path, training(), standby="t5")
    for name in ("t1", "t2", "t3"):
        it.nodes.says[name] = replace(it.nodes.well(name), drift={"driver": "570"})
    it.nodes.says["t4"] = replace(it.nodes.well("t4"), **says)  # type: ignore[arg-type]
    it.slurm.nodes_["t3"] = replace(
        it.slurm.nodes_["t3"], flags=("DRAIN",), reason=Reason("x", "root", 1)
    )
    answer = swap(it.world, WISH)
    assert (answer.state, answer.facts.spare) == ("done", "t5")
    (choice,) = [each.text for each in answer.steps if each.name == "choose"]
    assert why in choice


def test_a_node_of_another_partition_or_without_the_feature_is_no_spare(tmp_path: Path) -> None:
    it = lab(tmp_path, training(features="ds_c4"))
    lose(it.slurm, "t3")
    answer = swap(it.world, WISH)
    assert answer.state == "no-spare" and "feature ds_c4" in answer.text
    it.slurm.jobs_["10"] = replace(it.slurm.jobs_["10"], features="", partition="gpu")
    assert "partition gpu" in swap(it.world, WISH).text


def test_a_foreign_job_on_the_spare_means_the_next_one(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), replace(filler(), reservation=None, qos="normal"), standby="t5")
    lose(it.slurm, "t3")
    answer = swap(it.world, WISH)
    assert (answer.state, answer.facts.spare) == ("done", "t5")
    assert it.slurm.jobs_["20"].state == "RUNNING"


def test_a_spare_that_does_not_verify_is_passed_over(tmp_path: Path) -> None:
    it = lab(tmp_path, training(state="PENDING", nodes=(), restarts=1), standby="t5")
    it.slurm.nodes_["t3"] = replace(
        it.slurm.nodes_["t3"], base="DOWN", reason=Reason("x", "root", 1)
    )
    it.nodes.verdicts["t4"] = Answer("t4", 1, b'{"answer": "FAIL", "text": "1 file is short"}')
    it.slurm.schedules = False
    it.slurm.happens.append((it.slurm.clock.now_s() + 2, _schedule))
    answer = swap(it.world, WISH)
    assert answer.facts.tried == (("t4", "its copy is not whole: FAIL 1 file is short"),)
    assert (answer.state, answer.facts.spare) == ("done", "t5")
    assert it.nodes.verified == ["t4", "t5"]


def _schedule(slurm: object) -> None:
    slurm.schedules = True  # type: ignore[attr-defined]


def test_filler_is_cancelled_where_the_site_says_so(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), filler(may_requeue=False), filler_end="cancel")
    lose(it.slurm, "t3")
    answer = swap(it.world, WISH)
    assert answer.state == "done" and it.slurm.jobs_["20"].state == "CANCELLED"
    assert answer.facts.ended == ("20",)


def test_filler_that_cannot_be_requeued_makes_a_spare_unfit(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), filler(may_requeue=False))
    lose(it.slurm, "t3")
    answer = swap(it.world, WISH)
    assert answer.state == "no-spare" and "cannot be requeued" in answer.text
    assert it.slurm.jobs_["20"].state == "RUNNING"


def test_processes_without_a_job_on_the_spare_are_told(tmp_path: Path) -> None:
    it = lab(tmp_path, training())
    lose(it.slurm, "t3")
    it.nodes.says["t4"] = replace(it.nodes.well("t4"), strays=("eve 77 python",))
    answer = swap(it.world, WISH)
    assert any("eve 77 python" in note for note in answer.facts.notes)


def test_slurm_is_kept_from_a_spare_that_was_found_unfit(tmp_path: Path) -> None:
    """t4 is idle in the reservation: Slurm would start the job there. Mended it is used again."""
    it = lab(tmp_path, training(), standby="t5")
    it.slurm.nodes_["t3"] = replace(it.slurm.nodes_["t3"], flags=("NOT_RESPONDING",))
    it.nodes.verdicts["t4"] = Answer("t4", 1, b'{"answer": "FAIL", "text": "1 file is short"}')
    assert swap(it.world, WISH).state == "done"
    job = it.slurm.jobs_["10"]
    assert (sorted(job.nodes), job.excludes) == (["t1", "t2", "t5"], ("t4",))

    it.nodes.verdicts.clear()
    it.slurm.nodes_["t2"] = replace(it.slurm.nodes_["t2"], flags=("NOT_RESPONDING",))
    answer = swap(it.world, WISH)
    assert (answer.state, answer.facts.spare) == ("done", "t4"), answer
    job = it.slurm.jobs_["10"]
    assert (sorted(job.nodes), job.excludes) == (["t1", "t4", "t5"], ())


def test_what_the_user_excludes_stays_excluded(tmp_path: Path) -> None:
    it = lab(tmp_path, training(excludes=("t4",)), standby="t5")
    it.slurm.nodes_["t3"] = replace(it.slurm.nodes_["t3"], flags=("NOT_RESPONDING",))
    answer = swap(it.world, WISH)
    assert (answer.facts.spare, it.slurm.jobs_["10"].excludes) == ("t5", ("t4",))


def test_a_job_is_not_pinned_to_a_node_that_it_must_not_start_on(tmp_path: Path) -> None:
    """Slurm holds a job that names a node in --nodelist and in --exclude."""
    it = lab(tmp_path, training(pinned_to=("t1", "t2", "t3")))
    members = ("t1", "t2", "t3", "t4", "t5")
    it.slurm.reservation_ = replace(it.slurm.reservation_, nodes=members)
    lose(it.slurm, "t3")
    it.nodes.says["t1"] = replace(
        it.nodes.well("t1"), data=DataSays("c1-a", "degraded", 4, 1.0, 0, 0)
    )
    answer = swap(it.world, WISH)
    job = it.slurm.jobs_["10"]
    assert answer.state == "done", answer
    assert (job.pinned_to, job.excludes) == (("t2",), ("t1",))
