"""Jobs in JSON of 22.05, 24.11 and 26.05, and shapes of single fields in between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_io.errors import SlurmError
from slurm_io.slurm.infos import JobInfo, NodeShare
from slurm_io.slurm.job_records import job_from, jobs_from_json
from slurm_io.slurm.job_resources import shares_of
from slurm_io.slurm.version import parse_json

FIXTURES = Path(__file__).parents[1] / "fixtures" / "slurm"


def recorded(name: str) -> tuple[JobInfo, ...]:
    return jobs_from_json(parse_json((FIXTURES / name).read_text()))


def test_a_job_of_22_05() -> None:
    (job,) = recorded("jobs-22.05.8-v0.0.38.json")
    assert (job.name, job.user, job.state) == ("x UserId=root(0) JobState=FAKE", "root", "RUNNING")
    assert (job.nodes, job.comment, job.batch, job.may_requeue) == (
        ("t3", "t4"), "a b=c|d", True, True
    )  # fmt: skip
    assert (job.time_limit_s, job.reason, job.array, job.het) == (3600, None, None, None)
    assert dict(job.shares) == {node: NodeShare(cores=1, memory_mib=0) for node in ("t3", "t4")}
    assert job.start_s == 1796037310 and job.is_held is False


@pytest.mark.parametrize("release", ["24.11.5", "26.05.5"])
def test_jobs_of_later_schemas(release: str) -> None:
    first, second, *tasks = recorded(f"jobs-{release}-v0.0.42.json")
    assert (first.name, first.extra) == ("x UserId=root(0)", "e f")
    assert (first.pinned_to, first.excludes) == (("t1",), ("t4",))
    assert (first.start_s, first.end_s, first.nodes, first.shares) == (None, None, (), ())
    assert second.reason == "BeginTime" and second.eligible_s and second.submit_s
    assert second.eligible_s - second.submit_s == 3600
    running = [task for task in tasks if task.state == "RUNNING"]
    assert {task.array for task in running} == {("3", 1), ("3", 2)}
    for task in running:
        assert dict(task.shares) == {task.nodes[0]: NodeShare(cpus=1, cores=1, memory_mib=0)}


def job(**fields: Any) -> JobInfo:
    return job_from({"job_id": 5, "job_state": "RUNNING", **fields})


@pytest.mark.parametrize(
    ("printed", "state", "flags"),
    [("RUNNING", "RUNNING", ()), (["RUNNING"], "RUNNING", ()),
     (["COMPLETING", "NODE_FAIL"], "NODE_FAIL", ("COMPLETING",)),
     (["PENDING", "REQUEUED"], "PENDING", ("REQUEUED",)), ("COMPLETING", "COMPLETING", ())],
)  # fmt: skip
def test_states(printed: object, state: str, flags: tuple[str, ...]) -> None:
    found = job(job_state=printed)
    assert (found.state, found.flags) == (state, flags)


@pytest.mark.parametrize(
    ("limit", "seconds", "none"),
    [(60, 3600, False), (None, None, False),
     ({"set": True, "infinite": False, "number": 5}, 300, False),
     ({"set": False, "infinite": True, "number": 0}, None, True),
     ({"set": False, "infinite": False, "number": 0}, None, False)],
)  # fmt: skip
def test_no_limit_and_not_told_are_two_things(
    limit: object, seconds: int | None, none: bool
) -> None:
    found = job(time_limit=limit)
    assert (found.time_limit_s, found.no_time_limit) == (seconds, none)


@pytest.mark.parametrize(
    ("tasks", "has", "has_not"),
    [("4-9%2", "4 9", "3 10 2"), ("1,3,5-7", "1 3 6", "2 4 8"), ("1-9:2", "1 9", "2 8"),
     ("", "", "1"), ("1-3,...", "2", "4"), ("x-y", "", "1"), ("7", "7", "8")],
)  # fmt: skip
def test_tasks_that_wait_have_no_number_of_their_own(tasks: str, has: str, has_not: str) -> None:
    found = job(array_job_id=5, array_task_id=None, array_task_string=tasks)
    assert all(found.is_called(f"5_{task}") for task in has.split())
    assert not any(found.is_called(f"5_{task}") for task in has_not.split())
    assert found.is_called("5") and not found.is_called("6_4") and not found.is_called("5+4")


def test_tasks_and_components_have_two_names() -> None:
    assert job(array_job_id=3, array_task_id=4).is_called("3_4")
    assert job(het_job_id=4, het_job_offset=1).is_called("4+1")
    assert job(het_job_id=4, het_job_offset=1).is_called("5")
    assert not job(array_job_id=3, array_task_id=4).is_called("3")


def test_fields_that_a_schema_lacks_are_unknown() -> None:
    assert job() == JobInfo("5", "RUNNING")
    assert job(hold=True).is_held and job(priority=0).is_held
    assert job(state_reason="JobHeldUser", priority=9).is_held
    assert job(excluded_nodes=["n1", "n[3-4]"]).excludes == ("n1", "n3", "n4")
    gpus = job(tres_alloc_str="cpu=4,gres/gpu=4,gres/gpu:a100=4").gpus
    assert gpus is not None and gpus.by_type == {"a100": 4}
    # A contradiction hides this job's GPUs, not the job and not the others.
    assert job(tres_alloc_str="gres/gpu=1,gres/gpu:a100=4").gpus is None


@pytest.mark.parametrize(
    "broken",
    [{}, {"job_id": 0}, {"job_id": "x"}, {"job_state": []}, {"job_state": None}, {"job_state": 5},
     {"nodes": "n[1"}, {"user_id": "root"}, {"name": 5}, {"start_time": -1}],
)  # fmt: skip
def test_a_damaged_job_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(SlurmError):
        job_from({"job_state": "RUNNING", **broken} if "job_id" in broken else
                 {"job_id": 5, "job_state": "RUNNING", **broken} if broken else {})  # fmt: skip


# -- resources -----------------------------------------------------------------------------------

SOCKETS_V40 = {"0": {"cores": {"0": "allocated", "1": "allocated_and_in_use"}},
               "1": {"cores": {"0": "allocated", "1": "unallocated"}}}  # fmt: skip


def test_cores_of_several_sockets() -> None:
    nodes = [{"nodename": "n2", "sockets": SOCKETS_V40, "memory_allocated": 5}, {"nodename": "n1"}]
    listed = {"nodes": "n[1-2]", "allocated_nodes": nodes}
    assert shares_of(listed) == {"n2": NodeShare(cores=3, memory_mib=5), "n1": NodeShare()}
    # By number within their socket: which of them is meant twice is not told.
    node = {"sockets": {"0": "x", "1": "x"}, "cores": {"0": "x"}, "cpus": 2, "memory": 7}
    keyed = {"nodes": "n[1-2]", "allocated_nodes": {"1": node}}
    assert shares_of(keyed) == {"n2": NodeShare(cpus=2, memory_mib=7)}


@pytest.mark.parametrize("empty", [None, {}, [], ""])
def test_a_waiting_job_has_no_resources(empty: object) -> None:
    assert shares_of(empty) == {}


@pytest.mark.parametrize(
    "broken",
    [5, [1], {"nodes": 5}, {"nodes": "n1", "allocated_nodes": {"1": {}}},
     {"nodes": "n1", "allocated_nodes": {"x": {}}}, {"nodes": "n1", "allocated_nodes": "n1"},
     {"nodes": {"allocation": [{"cpus": {"count": 2}}]}},
     {"nodes": {"allocation": [{"name": "n1"}, {"name": "n1"}]}},
     {"nodes": "n1", "allocated_nodes": [{"nodename": "n1", "memory_allocated": -1}]}],
)  # fmt: skip
def test_resources_of_no_known_shape_are_refused(broken: object) -> None:
    with pytest.raises(SlurmError):
        shares_of(broken)


def test_records_are_compared_by_value() -> None:
    assert replace(job(), comment="x") != job()
