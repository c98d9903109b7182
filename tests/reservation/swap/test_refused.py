"""Swaps that are refused: nothing is changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_io.errors import UsageError
from slurm_io.reservation.swap.journal import unfinished
from slurm_io.reservation.swap.model import Declined, Wish
from slurm_io.reservation.swap.run import swap
from slurm_io.slurm.infos import Reason
from tests.reservation.swap.fake import NAME, FakeSlurm
from tests.reservation.swap.lab import Lab, filler, lab, lose, training

WISH = Wish(NAME)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"array": ("9", 1)}, "job array"),
        ({"waiting_tasks": "1-4"}, "job array"),
        ({"het": ("10", 0)}, "heterogeneous"),
        ({"may_requeue": False}, "--no-requeue"),
        ({"batch": False}, "salloc"),
    ],
)
def test_jobs_that_a_requeue_would_harm_are_refused(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    it = lab(tmp_path, training(**change))
    it.slurm.nodes_["t3"] = replace(it.slurm.nodes_["t3"], flags=("NOT_RESPONDING",))
    before = it.slurm.seen()
    with pytest.raises(Declined, match=said):
        swap(it.world, WISH)
    assert (it.slurm.log, it.slurm.seen()) == ([], before)
    swap_again(it)


def swap_again(it: Lab) -> None:
    """A refused swap leaves no unfinished journal."""
    with pytest.raises(Declined):
        swap(it.world, WISH)


def test_more_lost_nodes_than_the_site_believes_in_stop_it(tmp_path: Path) -> None:
    it = lab(tmp_path, training())
    for name in ("t1", "t2", "t3"):
        lose(it.slurm, name)
    with pytest.raises(Declined, match="3 nodes are lost at once"):
        swap(it.world, WISH)
    assert it.slurm.log == []


def test_a_node_that_comes_back_within_the_grace_is_left_alone(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), filler())
    lose(it.slurm, "t2", since_s=5)
    it.slurm.happens.append(
        (it.slurm.clock.now_s() + 10, lambda slurm: slurm.nodes_.update(t2=replace(
            slurm.nodes_["t2"], base="IDLE", flags=())))
    )  # fmt: skip
    answer = swap(it.world, WISH)
    assert (answer.state, answer.exit_code, it.slurm.log) == ("nothing", 0, [])
    assert "came back" in answer.text


def interrupt(slurm: FakeSlurm) -> None:
    raise KeyboardInterrupt


def test_the_wait_for_the_grace_is_announced_once(tmp_path: Path) -> None:
    it = lab(tmp_path, training())
    lose(it.slurm, "t2", since_s=12)
    lines: list[str] = []
    assert swap(replace(it.world, say=lines.append), WISH).state == "done"
    assert lines == ["t2 has looked bad for 12 s; waiting 18 s more, spares.grace_s"]


def test_ctrl_c_before_anything_was_done_leaves_nothing_to_take_back(tmp_path: Path) -> None:
    it = lab(tmp_path, training())
    lose(it.slurm, "t2", since_s=5)
    it.slurm.happens.append((it.slurm.clock.now_s() + 10, interrupt))
    with pytest.raises(KeyboardInterrupt):
        swap(it.world, WISH)
    assert it.slurm.log == [] and unfinished(str(tmp_path), NAME) is None
    it.slurm.happens.clear()
    assert swap(it.world, WISH).state == "done"


def test_ctrl_c_after_something_was_done_is_gone_on_with(tmp_path: Path) -> None:
    it = lab(tmp_path, training())
    lose(it.slurm, "t2")
    it.slurm.schedules = False
    it.slurm.happens.append((it.slurm.clock.now_s() + 60, interrupt))
    with pytest.raises(KeyboardInterrupt):
        swap(it.world, WISH)
    assert it.slurm.log and unfinished(str(tmp_path), NAME) is not None


def test_force_does_not_wait(tmp_path: Path) -> None:
    it = lab(tmp_path, training())
    lose(it.slurm, "t2", since_s=1)
    answer = swap(it.world, Wish(NAME, force=True))
    assert answer.state == "done" and answer.facts.phases["detect"] < 10


def test_two_jobs_must_be_told_apart(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), replace(training(), job_id="11"))
    lose(it.slurm, "t2")
    with pytest.raises(UsageError, match="10, 11"):
        swap(it.world, WISH)
    assert it.slurm.log == []


def test_two_failures_and_one_spare_change_nothing_and_show_plan_b(tmp_path: Path) -> None:
    it = lab(tmp_path, training())
    lose(it.slurm, "t2")
    lose(it.slurm, "t3")
    answer = swap(it.world, WISH)
    assert (answer.state, answer.exit_code) == ("no-spare", 3)
    assert "only t[1,4] can take over" in answer.text or "t1,t4" in answer.text, answer.text
    assert any(line.startswith("run on 2 nodes") for line in answer.plan_b)
    assert it.slurm.log == []


def test_two_failures_and_two_spares_are_two_swaps(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), standby="t5")
    for name in ("t2", "t3"):
        flags, why = ("DRAIN",), Reason("x", "root", 1)
        old = it.slurm.nodes_[name]
        it.slurm.nodes_[name] = replace(old, base="ALLOCATED", flags=flags, reason=why)
    first = swap(it.world, WISH)
    assert (first.state, first.exit_code) == ("partial", 1)
    assert first.facts.notes == ("t3 is bad as well: slurm-io spare swap R t3",)
    second = swap(it.world, Wish(NAME, bad="t3"))
    assert second.state == "done", second
    assert sorted(it.slurm.jobs_["10"].nodes) == ["t1", "t4", "t5"]
