from __future__ import annotations

from typing import Any

from slurm_io.reservation.reach.ways import Group, Ways, ways
from slurm_io.slurm.infos import JobInfo, NodeInfo, Reason


def node(name: str, base: str = "IDLE", *flags: str, **more: Any) -> NodeInfo:
    allocated = {"IDLE": 0, "MIXED": 2}.get(base, 4)
    return NodeInfo(name, base, flags, cpus=4, cpus_allocated=allocated, **more)


def found(
    *nodes: NodeInfo, jobs: tuple[JobInfo, ...] = (), direct: bool = False, uid: int = 0
) -> Ways:
    asked = [each.name for each in nodes]
    return ways(asked, {each.name: each for each in nodes}, jobs, "spares", direct, uid)


def test_nodes_with_room_are_reached_by_one_job_for_each_reservation_and_partition() -> None:
    here = {"reservation": "spares", "partitions": ("gpu", "all")}
    seen = found(node("n1", **here), node("n2", "MIXED", **here), node("n3", partitions=("gpu",)))
    assert seen.groups == (
        Group("job", ("n1", "n2"), "spares", "gpu"),
        Group("job", ("n3",), None, "gpu"),
    )


def test_full_nodes_are_reached_by_a_step_in_their_own_job_as_its_owner() -> None:
    jobs = (
        JobInfo("7", "RUNNING", uid=5, nodes=("n1", "n2")),
        JobInfo("8", "RUNNING", ("COMPLETING",), uid=6, nodes=("n3",)),
        JobInfo("9", "SUSPENDED", uid=6, nodes=("n3",)),
    )
    full = [node(name, "ALLOCATED") for name in ("n1", "n2", "n3")]
    seen = found(*full, jobs=jobs)
    assert seen.groups == (Group("step", ("n1", "n2"), job_id="7", uid=5),)
    assert "it is full" in seen.problems["n3"]
    assert set(found(*full, jobs=jobs, uid=64030).problems) == {"n1", "n2", "n3"}


def test_a_drained_node_takes_no_job_but_its_running_job_takes_a_step() -> None:
    drained = node("n1", "IDLE", "DRAIN", reason=Reason("slurm_io: disk"))
    assert "drained: slurm_io: disk: it takes no new job" in found(drained).problems["n1"]
    draining = node("n1", "MIXED", "DRAIN")
    job = JobInfo("7", "RUNNING", uid=5, nodes=("n1",))
    assert found(draining, jobs=(job,)).groups[0].kind == "step"
    assert found(drained, direct=True).groups == (Group("direct", ("n1",)),)


def test_what_slurm_cannot_reach_is_not_tried() -> None:
    gone = [node("n1", "DOWN"), node("n2", "IDLE", "NOT_RESPONDING"), node("n3", "UNKNOWN")]
    for direct in (True, False):
        assert set(found(*gone, direct=direct).problems) == {"n1", "n2", "n3"}
    assert ways(["n9"], {}, (), None, True, 0).problems == {"n9": "Slurm knows no such node"}


def test_a_node_asked_twice_is_reached_once() -> None:
    assert found(node("n1"), node("n1"), direct=True).groups == (Group("direct", ("n1",)),)
