"""A swap that is killed at any moment goes on, or is taken back, as if it had not been."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_io.errors import UsageError
from slurm_io.reservation.swap.journal import Event, Journal, unfinished
from slurm_io.reservation.swap.lock import LockLost
from slurm_io.reservation.swap.model import Wish
from slurm_io.reservation.swap.run import resume, roll_back, swap
from slurm_io.slurm.infos import Reason
from tests.reservation.swap.fake import NAME
from tests.reservation.swap.lab import Lab, filler, lab, lose, training, unreachable

WISH = Wish(NAME)


class Killed(BaseException):
    """As SIGKILL does, it passes all handlers."""


def killer(at: int, after: bool) -> Callable[[str, str, str], Journal]:
    """Journals that end the process before or after their line number `at` is on disk: before the
    act that follows it, or after the act that it reports."""

    class Deadly(Journal):
        count = 0

        def write(self, step: str, event: Event, text: str, facts: Mapping[str, Any]) -> None:
            Deadly.count += 1
            if Deadly.count == at and not after:
                raise Killed
            super().write(step, event, text, facts)
            if Deadly.count == at:
                raise Killed

    return Deadly


def broken(folder: Path) -> Lab:
    """A silent node with the job on it, filler on the only spare, a pin: all acts are needed."""
    it = lab(folder, training(pinned_to=("t3",)), filler())
    old = it.slurm.nodes_["t3"]
    it.slurm.nodes_["t3"] = replace(
        old, flags=("NOT_RESPONDING",), reason=Reason("ping", "slurm", 1)
    )
    return it


def lines_of_a_whole_swap(folder: Path) -> int:
    it = broken(folder)
    assert swap(it.world, WISH).state == "done"
    return len((folder / "reservations" / NAME / "swap.jsonl").read_text().splitlines())


def test_killed_at_each_line_of_the_journal_and_resumed(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    lines = lines_of_a_whole_swap(tmp_path / "whole")
    assert lines > 30
    for at in range(2, lines):
        for after in (False, True):
            folder = tmp_path / f"{at}{after}"
            folder.mkdir()
            it = broken(folder)
            with pytest.raises(Killed):
                swap(it.world, WISH, journal=killer(at, after))
            with pytest.raises(UsageError, match="--resume"):
                swap(it.world, WISH)
            answer = resume(it.world, WISH)
            assert answer.state == "done", (at, after, answer)
            seen = it.slurm.seen()
            assert seen["jobs"]["10"] == ("RUNNING", ("t1", "t2", "t4"), (), False), (at, after)
            assert not seen["jobs"]["20"][3] and "t3" not in seen["reservation"], (at, after)
            assert "DRAIN" in seen["nodes"]["t3"][1]
            assert it.slurm.log.count("requeue 20 hold") == 1, (at, after)
            assert unfinished(str(folder), NAME) is None


def test_killed_at_each_line_and_taken_back(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    for at in range(2, lines_of_a_whole_swap(tmp_path / "whole")):
        folder = tmp_path / f"{at}"
        folder.mkdir()
        it = broken(folder)
        with pytest.raises(Killed):
            swap(it.world, WISH, journal=killer(at, after=True))
        answer = roll_back(it.world, WISH)
        assert (answer.state, answer.exit_code) == ("rolled-back", 0), (at, answer)
        seen = it.slurm.seen()
        assert seen["reservation"] == ["t1", "t2", "t3", "t4"], at
        assert not seen["jobs"]["20"][3], at
        assert unfinished(str(folder), NAME) is None


def test_a_kill_between_act_and_line_is_seen_in_the_world(tmp_path: Path) -> None:
    """The act was made, its result never written."""
    for call in ("after drain", "after requeue", "after change"):
        folder = tmp_path / call.replace(" ", "-")
        folder.mkdir()
        it = broken(folder)
        it.slurm.broken[call] = [Killed()]
        with pytest.raises(Killed):
            swap(it.world, WISH)
        assert resume(it.world, WISH).state == "done"
        assert len([line for line in it.slurm.log if line.startswith("drain")]) == 1
        assert len([line for line in it.slurm.log if line.startswith("res")]) == 1


def test_our_drain_is_taken_back_when_the_node_is_well_again(tmp_path: Path) -> None:
    it = broken(tmp_path)
    it.slurm.broken["after change"] = [Killed()]
    with pytest.raises(Killed):
        swap(it.world, WISH)
    it.slurm.nodes_["t3"] = replace(it.slurm.nodes_["t3"], base="IDLE", flags=("DRAIN",))
    answer = roll_back(it.world, WISH)
    assert it.slurm.nodes_["t3"].is_idle and "resume t3" in it.slurm.log
    assert it.slurm.jobs_["10"].pinned_to == ("t3",)
    assert [each.name for each in answer.steps] == ["reservation", "clear", "fence"]


def test_a_drain_that_became_somebody_elses_stays(tmp_path: Path) -> None:
    it = broken(tmp_path)
    it.slurm.broken["after change"] = [Killed()]
    with pytest.raises(Killed):
        swap(it.world, WISH)
    it.slurm.nodes_["t3"] = replace(
        it.slurm.nodes_["t3"], base="IDLE", flags=("DRAIN",), reason=Reason("mine", "alice")
    )
    roll_back(it.world, WISH)
    assert it.slurm.nodes_["t3"].is_drained and "resume t3" not in it.slurm.log


def test_a_silent_controller_is_waited_for(tmp_path: Path) -> None:
    it = broken(tmp_path)
    it.slurm.broken["change"] = [unreachable(), unreachable()]
    it.slurm.broken["node"] = [unreachable()]
    assert swap(it.world, WISH).state == "done"


def test_a_controller_that_stays_away_stops_the_swap_to_be_resumed(tmp_path: Path) -> None:
    it = broken(tmp_path)
    it.slurm.broken["change"] = [unreachable() for _ in range(100)]
    answer = swap(it.world, WISH)
    assert (answer.state, answer.exit_code) == ("stopped", 3) and "--resume" in answer.text
    assert it.slurm.jobs_["20"].is_held  # nothing was taken back: nothing is known
    it.slurm.broken.clear()
    assert resume(it.world, WISH).state == "done"


def test_a_change_that_was_made_although_no_answer_came_is_not_made_again(tmp_path: Path) -> None:
    it = broken(tmp_path)
    it.slurm.broken["after change"] = [unreachable()]
    it.slurm.broken["after drain"] = [unreachable()]
    assert swap(it.world, WISH).state == "done"
    assert len([line for line in it.slurm.log if line.startswith(("res", "drain"))]) == 2


def test_a_node_that_comes_back_after_the_fence_stays_out(tmp_path: Path) -> None:
    it = lab(tmp_path, training(), filler())
    lose(it.slurm, "t3")

    def back(slurm: object) -> None:
        old = it.slurm.nodes_["t3"]
        flags = tuple(each for each in old.flags if each == "DRAIN")
        it.slurm.nodes_["t3"] = replace(old, base="IDLE", flags=flags)

    it.slurm.happens.append((it.slurm.clock.now_s() + 2, back))
    answer = swap(it.world, WISH)
    assert answer.state == "done" and it.slurm.nodes_["t3"].is_drained
    assert "t3" not in it.slurm.jobs_["10"].nodes


def test_a_resumed_swap_that_fails_takes_back_what_the_killed_one_did(tmp_path: Path) -> None:
    it = broken(tmp_path)
    with pytest.raises(Killed):
        swap(it.world, WISH, journal=killer(_line_of(tmp_path, "requeue and hold") + 1, True))
    assert it.slurm.jobs_["20"].is_held
    it.slurm.reservation_ = replace(it.slurm.reservation_, nodes=("t1", "t3", "t4"))
    answer = resume(it.world, WISH)
    assert answer.state == "rolled-back" and "somebody changed it" in answer.text, answer
    assert not it.slurm.jobs_["20"].is_held


def test_a_controller_that_has_just_started_is_waited_for(tmp_path: Path) -> None:
    """It calls its nodes UNKNOWN until it has heard from them."""
    it = broken(tmp_path)
    known = dict(it.slurm.nodes_)

    def restart(slurm: object) -> None:
        fenced = it.slurm.nodes_["t3"]
        it.slurm.nodes_ = {name: replace(each, base="UNKNOWN") for name, each in known.items()}
        it.slurm.nodes_["t3"] = fenced

    def hear(slurm: object) -> None:
        it.slurm.nodes_ = {**known, "t3": it.slurm.nodes_["t3"]}

    now_s = it.slurm.clock.now_s()
    it.slurm.happens += [(now_s + 1, restart), (now_s + 20, hear)]
    answer = swap(it.world, WISH)
    assert (answer.state, answer.facts.tried) == ("done", ()), answer


def test_what_a_controller_says_that_has_just_started_is_no_evidence(tmp_path: Path) -> None:
    it = broken(tmp_path)
    known = dict(it.slurm.nodes_)
    it.slurm.nodes_ = {
        name: replace(each, base="UNKNOWN", flags=()) for name, each in known.items()
    }
    hears_s = it.slurm.clock.now_s() + 20
    it.slurm.happens.append((hears_s, lambda slurm: slurm.nodes_.update(known)))
    assert swap(it.world, WISH).state == "done"


def test_a_node_that_somebody_resumed_ends_a_resumed_swap_and_all_is_taken_back(
    tmp_path: Path,
) -> None:
    it = broken(tmp_path)
    with pytest.raises(Killed):
        swap(it.world, WISH, journal=killer(_line_of(tmp_path, "requeue and hold") + 1, True))
    it.slurm.nodes_["t3"] = replace(it.slurm.nodes_["t3"], base="IDLE", flags=(), reason=None)
    answer = resume(it.world, WISH)
    assert answer.state == "rolled-back" and "came back" in answer.text, answer
    assert not it.slurm.jobs_["20"].is_held


def test_who_lost_the_lock_writes_and_changes_nothing_more(tmp_path: Path) -> None:
    it = broken(tmp_path)
    path = tmp_path / "reservations" / NAME / "swap.lock"

    def steal(slurm: object) -> None:
        data = json.loads(path.read_text())
        path.write_text(json.dumps({**data, "host": "elsewhere"}))

    it.slurm.happens.append((it.slurm.clock.now_s() + 1, steal))
    with pytest.raises(LockLost, match="elsewhere"):
        swap(it.world, WISH)
    lines = (tmp_path / "reservations" / NAME / "swap.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["event"] != "end"
    assert json.loads(path.read_text())["host"] == "elsewhere"


def _line_of(folder: Path, intent: str) -> int:
    """Number of the journal's line that a whole swap has for this intent."""
    (folder / "whole").mkdir()
    lines_of_a_whole_swap(folder / "whole")
    rows = (folder / "whole" / "reservations" / NAME / "swap.jsonl").read_text().splitlines()
    return next(n for n, row in enumerate(rows, 1) if json.loads(row)["text"].startswith(intent))


def test_nothing_to_resume(tmp_path: Path) -> None:
    it = broken(tmp_path)
    for act in (resume, roll_back):
        with pytest.raises(UsageError, match="no swap of reservation R is unfinished"):
            act(it.world, WISH)
