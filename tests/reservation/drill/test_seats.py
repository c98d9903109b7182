"""Where a drill may be held, and where it is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_io.config import ReservationConfig
from slurm_io.errors import SlurmRefused
from slurm_io.reservation.drill.seats import seats_of
from slurm_io.reservation.model import Pool
from slurm_io.slurm.infos import JobInfo, NodeInfo, ReservationInfo

NAMES = ("t1", "t2", "t3", "t4")
IDLE = Pool(
    "train",
    ReservationConfig(),
    ReservationInfo("train", ("t1", "t2", "t3")),
    {name: NodeInfo(name, "IDLE") for name in NAMES},
    (), (), (), NAMES,
)  # fmt: skip


def test_job_sits_in_the_reservation_and_a_standby_node_may_be_the_spare() -> None:
    seats = seats_of(IDLE, 3)
    assert (seats.nodes, seats.spares, seats.bad) == (("t1", "t2", "t3"), ("t4",), "t3")


def test_spare_may_run_filler_the_jobs_nodes_may_not() -> None:
    filler = JobInfo("9", "RUNNING", nodes=("t1",))
    pool = replace(IDLE, filler=(filler,))
    seats = seats_of(pool, 2)
    assert seats.nodes == ("t2", "t3") and seats.spares == ("t1", "t4")


def test_job_that_waits_is_not_overtaken() -> None:
    pool = replace(IDLE, protected=(JobInfo("7", "PENDING", reservation="train"),))
    with pytest.raises(SlurmRefused, match="job 7 waits"):
        seats_of(pool, 1)


def test_nodes_of_protected_and_foreign_jobs_are_left_alone() -> None:
    training = JobInfo("7", "RUNNING", nodes=("t1",), reservation="train")
    stranger = JobInfo("8", "RUNNING", nodes=("t4",))
    pool = replace(IDLE, protected=(training,), foreign=(stranger,), spares=("t2", "t3", "t4"))
    assert seats_of(pool, 1).nodes == ("t2",) and seats_of(pool, 1).spares == ("t3",)
    with pytest.raises(SlurmRefused, match="idle are t2, t3, further none"):
        seats_of(pool, 2)


@pytest.mark.parametrize(
    "node",
    [
        NodeInfo("t3", "DOWN"),
        NodeInfo("t3", "IDLE", ("DRAIN",)),
        NodeInfo("t3", "IDLE", ("NOT_RESPONDING",)),
        NodeInfo("t3", "MIXED"),
    ],
)
def test_node_that_is_not_well_and_idle_is_no_seat(node: NodeInfo) -> None:
    seats = seats_of(replace(IDLE, nodes={**IDLE.nodes, "t3": node}), 2)
    assert seats.nodes == ("t1", "t2")
