"""A node becomes a spare only when it is well, free, and its data was read in full."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_io.config import Config, ReservationConfig
from slurm_io.errors import SlurmRefused
from slurm_io.reservation.adding import Change, Hands, add_spare, remove_spare
from slurm_io.reservation.adding_hands import problem_of, with_standby
from slurm_io.reservation.history import History, HistoryRecord
from slurm_io.reservation.model import Answer
from slurm_io.reservation.staging.model import NodeAnswer, NodesPlan, StagedNodes
from slurm_io.reservation.status.failures import failures_in
from slurm_io.slurm.infos import JobInfo, NodeInfo, Reason, ReservationInfo

READY = {
    "content_id": "c1-aa", "state": "ready", "level": 4, "age_s": 1.0, "bytes_behind": 0,
    "files_behind": 0, "problem": None, "wanted_id": "c1-aa",
}  # fmt: skip

NO_RECORD = b"slurm-io: no record written: level 1 was not finished\n"


class Site:
    """Slurm and the nodes behind it; t4 is to become a spare of ``train``."""

    def __init__(self) -> None:
        self.members = ReservationInfo("train", ("t1", "t2"), 0, 2**33)
        self.infos = {name: NodeInfo(name, "IDLE") for name in ("t1", "t2", "t4")}
        self.running: tuple[JobInfo, ...] = ()
        self.verify_rc = 0
        self.verify_says = b""
        self.stage_problem: str | None = None
        self.data: dict[str, Any] = READY
        self.health: dict[str, Any] = {}
        self.asked: list[str] = []

    def nodes(self) -> tuple[NodeInfo, ...]:
        return tuple(self.infos.values())

    def node(self, name: str) -> NodeInfo:
        return self.infos[name]

    def jobs(self) -> tuple[JobInfo, ...]:
        return self.running

    def reservation(self, name: str) -> ReservationInfo:
        assert name == "train"
        return self.members

    def change_reservation(
        self,
        name: str,
        add: tuple[str, ...] = (),
        remove: tuple[str, ...] = (),
        expected: ReservationInfo | None = None,
    ) -> ReservationInfo:
        assert expected == self.members
        kept = tuple(each for each in self.members.nodes if each not in remove)
        self.members = replace(self.members, nodes=(*kept, *add))
        return self.members

    def ask(
        self,
        nodes: Sequence[str],
        arguments: Sequence[str],
        limit_s: float,
        stdin: bytes = b"",
        reservation: str | None = None,
    ) -> dict[str, Answer]:
        self.asked.append(arguments[1])
        if self.verify_says and arguments[1] == "verify":
            return {nodes[0]: Answer(nodes[0], self.verify_rc, self.verify_says, NO_RECORD)}
        says = {"node": nodes[0], "data": self.data, "health": self.health, "asked_at_s": 1.0}
        rc = self.verify_rc if arguments[1] == "verify" else 0
        return {nodes[0]: Answer(nodes[0], rc, json.dumps(says).encode(), b"2 bad files\n")}

    def stage(self, reservation: str, node: str) -> str | None:
        assert (reservation, node) == ("train", "t4")
        self.asked.append("stage")
        return self.stage_problem


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def hands(site: Site, tmp_path: Path) -> Hands:
    tmp_path.chmod(0o755)
    settings = ReservationConfig(dataset="c4", filler_partitions=("filler",))
    config = Config(state_dir=str(tmp_path), reservations={"train": settings})
    return Hands(site, site, config, site.stage)  # type: ignore[arg-type]


def test_whole_copy_is_read_before_the_reservation_changes(site: Site, hands: Hands) -> None:
    change = add_spare(hands, "train", "t4")
    assert (change.outcome, site.members.nodes) == ("added", ("t1", "t2", "t4"))
    assert site.asked == ["verify", "node-report", "node-report"]


def test_node_that_had_failed_counts_as_repaired_once(site: Site, hands: Hands) -> None:
    history = History(hands.config.state_dir, "train")
    add_spare(hands, "train", "t4")
    assert history.read() == ()
    history.append(HistoryRecord("swap", 5.0, "t4"))
    for _ in range(2):
        remove_spare(hands, "train", "t4")
        add_spare(hands, "train", "t4")
    assert [(each.kind, each.bad) for each in history.read()] == [("swap", "t4"), ("repair", "t4")]


def test_node_that_failed_and_stayed_inside_is_repaired_too(site: Site, hands: Hands) -> None:
    history = History(hands.config.state_dir, "train")
    failed_s = time.time() - 3600.0
    history.append(HistoryRecord("failure", failed_s, "t4"))
    site.members = replace(site.members, nodes=("t1", "t2", "t4"))
    assert [add_spare(hands, "train", "t4").outcome for _ in range(2)] == ["proven", "proven"]
    assert [each.kind for each in history.read()] == ["failure", "repair"]
    found = failures_in(history.read(), time.time() + 1.0)
    assert (found.repairs, found.mttr_s) == (1, pytest.approx(3600.0, abs=60.0))


def test_what_is_wrong_is_staged(site: Site, hands: Hands) -> None:
    site.verify_rc = 1
    assert add_spare(hands, "train", "t4").outcome == "added"
    assert site.asked[:2] == ["verify", "stage"]


def test_copy_that_is_not_there_is_told_as_such_and_staged(site: Site, hands: Hands) -> None:
    site.verify_rc = 1
    site.verify_says = b"FAIL      the folder '/raid/c4' is not there\nversion   c1-aa\n"
    told: list[str] = []
    assert add_spare(replace(hands, tell=told.append), "train", "t4").outcome == "added"
    assert (
        told[1] == "t4: FAIL the folder '/raid/c4' is not there; staging what is missing or wrong"
    )
    assert "stage" in site.asked


def test_node_that_is_to_stay_outside_is_proven_only(site: Site, hands: Hands) -> None:
    change = add_spare(hands, "train", "t4", stay_outside=True)
    assert (change.outcome, site.members.nodes) == ("proven", ("t1", "t2"))
    assert "outside" in change.text and site.asked[0] == "verify"
    planned = add_spare(hands, "train", "t4", dry=True, stay_outside=True)
    assert planned.text == "verify c4 on t4, stage what is wrong"


def test_staging_that_fails_names_the_command_that_takes_another_place(
    site: Site, hands: Hands
) -> None:
    site.verify_rc, site.stage_problem = 1, "no node holds it"
    with pytest.raises(SlurmRefused, match="dataset stage c4 --to t4 --reservation train --from"):
        add_spare(hands, "train", "t4")


def test_staging_that_fails_leaves_the_reservation_alone(site: Site, hands: Hands) -> None:
    site.verify_rc, site.stage_problem = 1, "no node holds it"
    with pytest.raises(SlurmRefused, match="could not be given c4: no node holds it"):
        add_spare(hands, "train", "t4")
    assert site.members.nodes == ("t1", "t2")


@pytest.mark.parametrize("changed", [{"state": "degraded"}, {"problem": "another machine's"}])
def test_record_must_agree_in_the_end(site: Site, hands: Hands, changed: dict[str, str]) -> None:
    site.data = {**READY, **changed}
    with pytest.raises(SlurmRefused, match="does not hold c4"):
        add_spare(hands, "train", "t4")
    assert site.members.nodes == ("t1", "t2")


def test_node_whose_check_fails_is_refused(site: Site, hands: Hands) -> None:
    site.health = {"arrays": ["FAIL", "md0 lost a member"]}
    with pytest.raises(SlurmRefused, match="md0"):
        add_spare(hands, "train", "t4")
    assert site.members.nodes == ("t1", "t2")


@pytest.mark.parametrize(
    "info",
    [
        NodeInfo("t4", "DOWN"),
        NodeInfo("t4", "IDLE", ("DRAIN",), Reason("firmware")),
        NodeInfo("t4", "IDLE", reservation="other"),
        NodeInfo("t4", "ALLOCATED"),
    ],
)
def test_node_that_is_not_well_or_not_free_is_not_even_asked(
    site: Site, hands: Hands, info: NodeInfo
) -> None:
    site.infos["t4"] = info
    with pytest.raises(SlurmRefused):
        add_spare(hands, "train", "t4")
    assert site.asked == []


def test_node_that_is_in_already_is_proven_and_filler_is_no_hindrance(
    site: Site, hands: Hands
) -> None:
    site.running = (JobInfo("9", "RUNNING", partition="filler", nodes=("t2",)),)
    assert add_spare(hands, "train", "t2").outcome == "proven"
    assert site.asked[0] == "verify"


def test_dry_run_does_nothing(site: Site, hands: Hands) -> None:
    change: Change = add_spare(hands, "train", "t4", dry=True)
    assert change.text == "verify c4 on t4, stage what is wrong, then add t4 to reservation train"
    assert site.asked == [] and site.members.nodes == ("t1", "t2")
    assert remove_spare(hands, "train", "t2", dry=True).outcome == "would-remove"
    assert site.members.nodes == ("t1", "t2")


def test_node_of_a_protected_job_is_not_removed(site: Site, hands: Hands) -> None:
    site.running = (JobInfo("7", "RUNNING", reservation="train", nodes=("t2",)),)
    with pytest.raises(SlurmRefused, match="spare swap train t2"):
        remove_spare(hands, "train", "t2")
    assert remove_spare(hands, "train", "t1").outcome == "removed"
    assert site.members.nodes == ("t2",)


def test_node_of_another_place_is_not_removed(site: Site, hands: Hands) -> None:
    with pytest.raises(SlurmRefused, match="not in reservation"):
        remove_spare(hands, "train", "t4")


def test_node_outside_is_copied_to_as_a_standby_one_is(hands: Hands) -> None:
    known = with_standby(hands.config, "train", "t4")
    assert known.reservations["train"].standby == "t4"
    assert with_standby(known, "train", "t5").reservations["train"].standby == "t4,t5"
    assert hands.config.reservations["train"].standby == ""


def test_what_came_of_a_copy_is_told_as_a_problem_or_none() -> None:
    plan = NodesPlan("c4", "c1-aa", "train", (), ())
    assert problem_of(StagedNodes(replace(plan, problem="nobody has it"), ()), "t4") is not None
    assert problem_of(StagedNodes(replace(plan, ready=("t4",)), ()), "t4") is None
    assert problem_of(StagedNodes(plan, (NodeAnswer("t4", 1, "extra files"),)), "t4") is None
    assert problem_of(StagedNodes(plan, (NodeAnswer("t4", None, "killed"),)), "t4") == "killed"
    left_out = replace(plan, excluded={"t4": "it is busy"})
    assert problem_of(StagedNodes(left_out, ()), "t4") == "it is busy"
