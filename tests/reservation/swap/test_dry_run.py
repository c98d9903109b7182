"""A dry run, and swaps for which there is nothing to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from slurm_io.reservation.model import NodeSays
from slurm_io.reservation.swap.model import SwapAnswer, Wish
from slurm_io.reservation.swap.run import plan, swap
from tests.reservation.swap.fake import NAME
from tests.reservation.swap.lab import filler, lab, lose, training

WISH = Wish(NAME)


def outcomes(answer: SwapAnswer) -> dict[str, str]:
    return {report.name: report.outcome for report in answer.steps}


def test_a_dry_run_tells_each_step_and_changes_nothing(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), filler())
    lose(it.slurm, "t3")
    before = it.slurm.seen()
    answer = plan(it.world, WISH)
    assert answer.state == "planned" and answer.text == "t4 would take over from t3"
    assert (it.slurm.seen(), it.slurm.log, it.nodes.verified) == (before, [], [])
    assert list(tmp_path.iterdir()) == []
    said = {each.name: each.text for each in answer.steps}
    assert said["clear"] == "requeue (and hold) filler job 20 on t4"
    assert said["reservation"] == "nodes of R: t[1-4] -> t[1-2,4]"
    assert "dataset verify c4 --tier local --level 2" in said["verify"]
    assert outcomes(answer)["fence"] == "would"
    assert it.slurm.clock.now_s() == 1_800_000_000.0


def test_a_dry_run_without_a_bad_node(tmp_path: Path) -> None:
    it = lab(tmp_path, training())
    assert plan(it.world, WISH).state == "nothing"


def test_a_node_named_that_is_well(tmp_path: Path) -> None:
    it = lab(tmp_path, training())
    answer = swap(it.world, Wish(NAME, bad="t1"))
    assert answer.state == "nothing" and "t1 looks well" in answer.text


def test_nodes_that_say_nothing_are_no_spares(tmp_path: Path) -> None:
    it = lab(tmp_path, training())
    lose(it.slurm, "t3")
    it.nodes.says["t4"] = NodeSays("t4", 0.0, problem="hung")
    it.slurm.jobs_["10"] = replace(it.slurm.jobs_["10"], node_count=4)
    assert swap(it.world, WISH).state == "no-spare"
