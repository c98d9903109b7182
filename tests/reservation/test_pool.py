"""Who is a spare: nodes of the reservation without a job that must go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_io.errors import ConfigError, SlurmError, SlurmNotFound, UsageError
from slurm_io.reservation.pool import jobs_on, read_pool, waiting_nodes
from tests.reservation.pools import FakeSlurm, config_of, filler, node, reservation, training


def test_spares_are_the_nodes_without_a_protected_job() -> None:
    pool = read_pool(FakeSlurm(), config_of(), "train")
    assert pool.spares == ("n4",)
    assert [job.job_id for job in pool.protected] == ["7"]
    assert pool.filler == pool.foreign == ()


def test_a_filler_job_leaves_its_node_a_spare() -> None:
    pool = read_pool(FakeSlurm(jobs_now=(training(), filler())), config_of(), "train")
    assert pool.spares == ("n4",)
    assert [job.job_id for job in pool.filler] == ["8"]
    assert [job.job_id for job in jobs_on(pool, "n4")] == ["8"]


def test_filler_is_known_by_partition_too() -> None:
    jobs = (training(), filler(qos="normal", partition="idle"))
    pool = read_pool(FakeSlurm(jobs_now=jobs), config_of(filler_partitions=["idle"]), "train")
    assert [job.job_id for job in pool.filler] == ["8"]


def test_a_second_job_of_the_reservation_is_protected_too() -> None:
    jobs = (training(), filler(qos="normal"))
    pool = read_pool(FakeSlurm(jobs_now=jobs), config_of(), "train")
    assert pool.spares == ()
    assert [job.job_id for job in pool.protected] == ["7", "8"]


def test_a_job_of_nobody_s_reservation_on_a_spare_is_foreign() -> None:
    jobs = (training(), filler(qos="normal", reservation=None))
    pool = read_pool(FakeSlurm(jobs_now=jobs), config_of(), "train")
    assert [job.job_id for job in pool.foreign] == ["8"]
    assert pool.spares == ("n4",)


def test_jobs_elsewhere_and_jobs_that_ended_do_not_count() -> None:
    jobs = (
        training(),
        filler(qos="normal", reservation=None, nodes=("n9",)),
        filler(qos="normal", state="COMPLETED"),
        filler(qos="normal", state="PENDING", reservation="other", nodes=()),
    )
    pool = read_pool(FakeSlurm(jobs_now=jobs), config_of(), "train")
    assert (pool.protected, pool.filler, pool.foreign) == ((training(),), (), ())


def test_a_job_that_is_ending_still_holds_its_node() -> None:
    ending = filler(qos="normal", state="COMPLETED", flags=("COMPLETING",))
    pool = read_pool(FakeSlurm(jobs_now=(training(), ending)), config_of(), "train")
    assert pool.spares == ()


def test_a_requeued_job_waits_for_as_many_of_the_spares_as_it_needs() -> None:
    requeued = training(state="PENDING", nodes=(), reason="BeginTime")
    pool = read_pool(FakeSlurm(jobs_now=(requeued,)), config_of(), "train")
    assert pool.spares == ("n1", "n2", "n3", "n4")
    assert waiting_nodes(pool) == 3


def test_a_waiting_job_may_name_several_reservations() -> None:
    waiting = training(state="PENDING", nodes=(), reservation="other,train")
    pool = read_pool(FakeSlurm(jobs_now=(waiting,)), config_of(), "train")
    assert pool.protected == (waiting,)


@pytest.mark.parametrize("uid", [0, 1001])
def test_our_own_jobs_protect_nothing_and_a_name_alone_makes_none_ours(
    uid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    ours = filler(qos="normal", name="slurm_io: ask", uid=uid)
    pool = read_pool(FakeSlurm(jobs_now=(training(), ours)), config_of(), "train")
    assert pool.spares == (("n4",) if uid == 0 else ())


def test_standby_nodes_are_spares_in_natural_order() -> None:
    nodes = tuple(map(node, ("n1", "n10", "n2", "n3", "n4", "n9")))
    pool = read_pool(FakeSlurm(nodes_now=nodes), config_of(standby="n[9-10]"), "train")
    assert pool.spares == ("n4", "n9", "n10")


def test_bad_nodes_are_spares_that_people_see() -> None:
    nodes = (*map(node, ("n1", "n2", "n3")), node("n4", base="DOWN", flags=("NOT_RESPONDING",)))
    pool = read_pool(FakeSlurm(nodes_now=nodes), config_of(), "train")
    assert pool.spares == ("n4",)
    assert pool.nodes["n4"].base == "DOWN"


def test_a_standby_node_that_slurm_lost_is_shown_as_unknown() -> None:
    pool = read_pool(FakeSlurm(), config_of(standby="gone1"), "train")
    assert pool.nodes["gone1"].base == "UNKNOWN"
    assert "gone1" in pool.spares


def test_errors_say_what_to_do() -> None:
    with pytest.raises(UsageError, match="no section for reservation 'other'.*train"):
        read_pool(FakeSlurm(), config_of(), "other")
    with pytest.raises(SlurmNotFound, match="ended, was deleted or never made"):
        read_pool(FakeSlurm(reservations_now=()), config_of(), "train")
    over = replace(reservation(), end_s=1000)
    with pytest.raises(SlurmError, match=r"ended \d+ s ago.*make it again"):
        read_pool(FakeSlurm(reservations_now=(over,)), config_of(), "train")
    with pytest.raises(ConfigError, match="standby"):
        read_pool(FakeSlurm(), config_of(standby="n[1-"), "train")


@pytest.mark.parametrize("state", ["PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"])
def test_a_job_that_was_requeued_is_protected_held_or_not(state: str) -> None:
    """As after a swap that was rolled back: its user, or Slurm, may hold it."""
    waiting = training(state=state, nodes=(), is_held=True, reason="JobHeldAdmin")
    pool = read_pool(FakeSlurm(jobs_now=(waiting,)), config_of(), "train")
    assert pool.protected == (waiting,) and waiting_nodes(pool) == 3
