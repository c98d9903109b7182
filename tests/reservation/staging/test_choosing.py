from __future__ import annotations

from typing import Any

import pytest

from slurm_io.config import ReservationConfig, StageConfig
from slurm_io.reservation.model import DataSays, NodeSays, Pool
from slurm_io.reservation.staging.choosing import donors, estimate_s, host_of, known_rate, targets
from slurm_io.reservation.staging.model import Donor, Target
from slurm_io.slurm.infos import JobInfo, NodeInfo, ReservationInfo

WANTED = "c1-aa"
SETTINGS = StageConfig()


def says(node: str, state: str = "ready", content_id: str = WANTED, **more: Any) -> NodeSays:
    data = DataSays(content_id, state, 4, 1.0, more.pop("behind", None), None, **more)
    return NodeSays(node, 0.0, data=data)


def pool(**jobs: JobInfo) -> Pool:
    names = ("n1", "n2", "n3", "n4", "standby")
    protected = tuple(job for name, job in jobs.items() if name.startswith("train"))
    filler = tuple(job for name, job in jobs.items() if name.startswith("filler"))
    taken = {node for job in protected for node in job.nodes}
    return Pool(
        name="spares",
        settings=ReservationConfig(dataset="c4"),
        reservation=ReservationInfo("spares", names[:4]),
        nodes={name: NodeInfo(name, "IDLE", address=f"{name}.net") for name in names},
        protected=protected,
        filler=filler,
        foreign=(),
        spares=tuple(name for name in names if name not in taken),
    )


TRAINING = JobInfo("7", "RUNNING", uid=5, nodes=("n1",))
FILLER = JobInfo("8", "RUNNING", uid=5, nodes=("n3",))


def test_spares_give_first_and_nodes_that_train_last_and_little() -> None:
    said = {name: says(name) for name in ("n1", "standby", "n2", "n3")}
    found, refused = donors(pool(train=TRAINING, filler=FILLER), said, WANTED, SETTINGS)
    assert [(each.node, each.kind, each.most_bytes_s) for each in found] == [
        ("n2", "spare", 0),
        ("n3", "spare", 0),
        ("standby", "idle", 0),
        ("n1", "training", 500_000_000),
    ]
    assert refused == {}
    never = StageConfig(training_donor_bytes_s=0)
    found, refused = donors(pool(train=TRAINING), {"n1": said["n1"]}, WANTED, never)
    assert found == () and "a job runs there" in refused["n1"]


def test_only_a_proven_copy_of_this_version_is_given() -> None:
    said = {
        "n1": says("n1", "degraded"),
        "n2": says("n2", content_id="c1-bb"),
        "n3": says("n3", problem="bit flip in part-001"),
        "n4": NodeSays("n4", 0.0, problem="slurmd does not answer"),
        "standby": NodeSays("standby", 0.0),
    }
    found, refused = donors(pool(), said, WANTED, SETTINGS)
    assert found == () and set(refused) == set(said)
    assert "another version" in refused["n2"] and refused["n3"] == "bit flip in part-001"


def test_named_nodes_give_and_no_others() -> None:
    said = {name: says(name) for name in ("n1", "n2")}
    found, refused = donors(pool(), said, WANTED, SETTINGS, ("n2", "n9"))
    assert [each.node for each in found] == ["n2"]
    assert refused == {"n9": "it is no node of this pool"}


def test_a_node_whose_job_may_read_the_data_is_no_target() -> None:
    said = {
        "n1": says("n1", "absent"),
        "n2": says("n2"),
        "n3": says("n3", "degraded", behind=5),
        "n4": NodeSays("n4", 0.0, problem="drained"),
    }
    asked = ("n3", "n1", "n2", "n4", "n9", "n3")
    found, ready, refused = targets(
        pool(train=TRAINING, filler=FILLER), asked, said, WANTED, SETTINGS
    )
    assert found == (Target("n3", "n3.net", 5),)
    assert ready == ("n2",)
    assert "job 7 runs there" in refused["n1"] and refused["n4"] == "drained"
    assert "no node of this reservation" in refused["n9"]


def test_nodes_reach_each_other_by_the_name_that_the_site_gives() -> None:
    node = NodeInfo("n1", "IDLE", address="10.0.0.1")
    assert host_of(node, SETTINGS) == "10.0.0.1"
    assert host_of(NodeInfo("n1", "IDLE"), SETTINGS) == "n1"
    assert host_of(node, StageConfig(peer_host="%N-ib0")) == "n1-ib0"


def test_the_number_of_copies_doubles_in_the_time_of_one() -> None:
    """24 TB at 4.44 GB/s: 1.5 h; from one node to 47 others 6 rounds, from 12 to 36 two."""
    one_s = 24e12 / 4.44e9
    takers = [Target(f"n{number}", "", 24 * 10**12) for number in range(47)]
    one = [Donor("d", "spare", "d")]
    assert estimate_s(takers, one, 4.44e9) == pytest.approx(6 * one_s)
    assert estimate_s(takers[:36], one * 12, 4.44e9) == pytest.approx(2 * one_s)
    assert estimate_s(takers[:1], one, 4.44e9) == one_s
    assert estimate_s(takers, [], 4.44e9) == one_s  # all at once from elsewhere
    training = [Donor("d", "training", "d", 5 * 10**8)]
    assert estimate_s(takers[:1], training, 4.44e9) == pytest.approx(24e12 / 5e8)
    assert estimate_s(takers, one, None) is None
    assert estimate_s([Target("n", "", None)], one, 1.0) is None


def test_the_slowest_remembered_copy_counts() -> None:
    said = {"n1": says("n1", rate_bytes_s=5.0), "n2": says("n2", rate_bytes_s=3.0)}
    assert known_rate(said) == 3.0
    assert known_rate({"n1": NodeSays("n1", 0.0)}) is None
