"""What a drill gives back, and what it leaves alone because somebody else has changed it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_io.errors import HostError
from slurm_io.reservation.drill.debt import Debt, debt_of, keep_debt, pay_back
from slurm_io.slurm.infos import JobInfo, NodeInfo, Reason, ReservationInfo

DEBT = Debt("t2", ("t1", "t2"), "7")
OURS = Reason("slurm_io: drill of reservation train: it is well, resume it any time")


class Cluster:
    """A drill that got as far as it can: t2 is out and drained, t3 is in, job 7 runs."""

    def __init__(self) -> None:
        self.members = ReservationInfo("train", ("t1", "t3"))
        self.bad = NodeInfo("t2", "IDLE", ("DRAIN",), OURS)
        self.job = JobInfo("7", "RUNNING", nodes=("t1", "t3"), comment="slurm_io-drill train")
        self.done: list[Any] = []

    def jobs(self) -> tuple[JobInfo, ...]:
        return (self.job, JobInfo("8", "RUNNING", nodes=("t9",)))

    def node(self, name: str) -> NodeInfo:
        assert name == "t2"
        return self.bad

    def reservation(self, name: str) -> ReservationInfo:
        assert name == "train"
        return self.members

    def cancel(self, job_id: str) -> None:
        self.done.append(("cancel", job_id))

    def resume(self, node: str) -> None:
        self.done.append(("resume", node))

    def change_reservation(
        self, name: str, add: tuple[str, ...], remove: tuple[str, ...], expected: Any
    ) -> None:
        assert expected == self.members
        self.done.append(("change", add, remove))


@pytest.fixture
def state(tmp_path: Path) -> str:
    tmp_path.chmod(0o755)
    keep_debt(str(tmp_path), "train", DEBT)
    return str(tmp_path)


def pay(cluster: Cluster, state: str, debt: Debt = DEBT) -> list[str]:
    return pay_back(cluster, state, "train", debt)  # type: ignore[arg-type]


def test_all_is_given_back_and_nothing_is_owed_any_more(state: str) -> None:
    cluster = Cluster()
    assert debt_of(state, "train") == DEBT
    pay(cluster, state)
    assert cluster.done == [("cancel", "7"), ("resume", "t2"), ("change", ("t2",), ("t3",))]
    assert debt_of(state, "train") is None


def test_job_whose_number_was_lost_is_found_by_its_mark(state: str) -> None:
    cluster = Cluster()
    pay(cluster, state, replace(DEBT, job=""))
    assert ("cancel", "7") in cluster.done


def test_number_that_is_somebody_elses_by_now_is_not_ended(state: str) -> None:
    cluster = Cluster()
    cluster.job = replace(cluster.job, comment="slurm-io: profile=light")
    pay(cluster, state)
    assert not [each for each in cluster.done if each[0] == "cancel"]


@pytest.mark.parametrize("reason", ["fan is broken", "slurm_io: swap to t3", ""])
def test_drain_that_is_not_ours_stays(state: str, reason: str) -> None:
    cluster = Cluster()
    cluster.bad = replace(cluster.bad, reason=Reason(reason) if reason else None)
    told = pay(cluster, state)
    assert ("resume", "t2") not in cluster.done and "stays drained" in " ".join(told)


@pytest.mark.parametrize("members", [("t2",), ("t1", "t3", "t4"), ("t5", "t6")])
def test_reservation_that_somebody_else_changed_is_left_alone(
    state: str, members: tuple[str, ...]
) -> None:
    cluster = Cluster()
    cluster.members = replace(cluster.members, nodes=members)
    told = pay(cluster, state)
    assert "left alone" in " ".join(told)
    assert not [each for each in cluster.done if each[0] == "change"]


def test_damaged_note_says_what_to_look_for(state: str) -> None:
    (Path(state) / "reservations" / "train" / "drill.json").write_text("[]")
    with pytest.raises(HostError, match="drill-train"):
        debt_of(state, "train")
