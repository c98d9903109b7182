"""The contract of slurm_io.slurm.base.Slurm, which every backend keeps on a real cluster."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_io.errors import SlurmError, SlurmNotFound, SlurmRefused, SlurmUnreachable
from slurm_io.slurm.base import JobChange, NewJob, NewReservation, Slurm
from slurm_io.slurm.cli import CliSlurm
from slurm_io.slurm.infos import NodeInfo, ReservationInfo
from slurm_io.slurm.tools import Limits, complaint, run_tool
from slurm_io.slurm.version import parse_version
from tests.cluster.conftest import require_cluster
from tests.labs import cluster_parts as parts
from tests.labs.cluster import SlurmCluster
from tests.labs.cluster_parts import wait_until

pytestmark = pytest.mark.cluster
FOLDERS = tuple(parts.SBIN_PATH.split(":"))
BACKENDS: dict[str, Callable[[float], Slurm]] = {
    "commands": lambda time_s: CliSlurm(Limits(time_s, folders=FOLDERS)),
}
HOSTILE = "x UserId=root(0) JobState=COMPLETED NodeList=t9 Requeue=0"


@pytest.fixture(scope="module")
def plain_cluster() -> Iterator[SlurmCluster]:
    """Without our hooks, so that another Slurm's cluster can stand in a root of its own."""
    require_cluster()
    with SlurmCluster(nodes=4) as started:
        yield started


@pytest.fixture
def cluster(plain_cluster: SlurmCluster) -> SlurmCluster:
    """Every node idle, up, and without texts of an earlier test."""
    for name in plain_cluster.node_names:
        if plain_cluster.node_states()[name].startswith(("drain", "drng", "down")):
            plain_cluster.scontrol("update", f"NodeName={name}", "State=RESUME")
        plain_cluster.scontrol("update", f"NodeName={name}", "Comment=", "Extra=")
    plain_cluster.heal()
    return plain_cluster


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Callable[[float], Slurm]:
    return BACKENDS[request.param]


@pytest.fixture
def slurm(
    backend: Callable[[float], Slurm], cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Slurm]:
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf_path))
    # Whatever the caller's own environment says must not change what is read.
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    access = backend(30.0)
    yield access
    for job in access.jobs():
        if job.state in ("PENDING", "RUNNING"):
            access.cancel(job.job_id)
    for each in access.reservations():
        wait_until(lambda name=each.name: is_deleted(access, name), 30, f"{each.name} deleted")


def is_deleted(slurm: Slurm, name: str) -> bool:
    """Slurm refuses while the reservation's jobs end."""
    try:
        slurm.delete_reservation(name)
    except SlurmNotFound:
        return True
    except SlurmRefused:
        return False
    return True


def make(slurm: Slurm, *nodes: str, name: str = "spares") -> ReservationInfo:
    return slurm.create_reservation(NewReservation(name, nodes, users=("games",)))


def wait_state(slurm: Slurm, job: int, state: str) -> None:
    try:
        wait_until(lambda: slurm.job(str(job)).state == state, 40, f"job {job} {state}", 0.3)
    except parts.ClusterError as error:
        raise parts.ClusterError(f"{error}: {slurm.job(str(job))}") from error


def wait_node(slurm: Slurm, name: str, wanted: Callable[[NodeInfo], bool]) -> None:
    wait_until(lambda: wanted(slurm.node(name)), 30, f"{name} as wanted", 0.3)


# -- reading -------------------------------------------------------------------------------------


def test_nodes_partitions_and_configuration(slurm: Slurm) -> None:
    assert slurm.is_up()
    nodes = slurm.nodes()
    assert [node.name for node in nodes] == ["t1", "t2", "t3", "t4"]
    for node in nodes:
        assert (node.base, node.is_free, node.reason) == ("IDLE", True, None)
        assert (node.cpus, node.cores, node.memory_mib, node.partitions) == (4, 4, 1000, ("main",))
        assert node.gpus.devices == 0
        assert node.boot_s is not None and abs(time.time() - node.boot_s) < 400 * 86400
    assert replace_moving(slurm.node("t2")) == replace_moving(nodes[1])
    (main,) = slurm.partitions()
    assert (main.name, main.is_default, main.state) == ("main", True, "UP")
    assert (main.nodes, main.max_time_s) == (("t1", "t2", "t3", "t4"), 3600)
    config = slurm.config()
    assert (config.cluster, config.cred_expire_s, config.start_delay_s) == ("lab", 5, 5)
    assert (config.slurmd_timeout_s, config.kill_wait_s, config.accounting) == (9, 2, True)
    assert config.version[:2] == parts.slurm_version()
    assert (config.has_prolog, config.health_check_program) == (False, None)
    assert config.unkillable_step_s is not None and config.unkillable_step_s >= 60


def replace_moving(node: NodeInfo) -> NodeInfo:
    return replace(node, last_busy_s=None)


def test_what_is_not_there_is_said_to_be_not_there(slurm: Slurm) -> None:
    with pytest.raises(SlurmNotFound, match="no node t9"):
        slurm.node("t9")
    with pytest.raises(SlurmNotFound, match="no job 999999"):
        slurm.job("999999")
    with pytest.raises(SlurmNotFound, match="no reservation nothing"):
        slurm.reservation("nothing")


def test_sinfo_agrees_with_the_nodes(slurm: Slurm, cluster: SlurmCluster) -> None:
    if not isinstance(slurm, CliSlurm):
        pytest.skip("sinfo is the commands' own")
    table = slurm.overview()
    assert table.default_partition == "main"
    assert [each.name for each in table.nodes] == cluster.node_names
    assert {(each.state, each.cpus, each.memory_mib) for each in table.nodes} == {("idle", 4, 1000)}


# -- nodes ---------------------------------------------------------------------------------------


def test_a_drained_node_keeps_its_reason_and_comes_back(slurm: Slurm) -> None:
    slurm.drain("t2", "slurm_io: disk gone, 100% State=IDLE [x Comment=y")
    slurm.set_node_texts("t2", comment="a b=c State=DOWN", extra='{"a": 1}')
    node = slurm.node("t2")
    assert node.is_drained and not node.is_free
    assert node.reason is not None and node.reason.user == "root"
    assert node.reason.text == "slurm_io: disk gone, 100% State=IDLE [x Comment=y"
    assert node.reason.at_s is not None and abs(time.time() - node.reason.at_s) < 60
    assert (node.comment, node.extra) == ("a b=c State=DOWN", '{"a": 1}')
    assert [each.name for each in slurm.nodes() if each.is_drained] == ["t2"]
    slurm.resume("t2")
    slurm.set_node_texts("t2", comment="", extra="")
    wait_node(slurm, "t2", lambda node: node.is_free)
    assert (slurm.node("t2").comment, slurm.node("t2").reason) == ("", None)


def test_features_of_a_node_are_set_and_jobs_can_ask_for_them(
    slurm: Slurm, cluster: SlurmCluster
) -> None:
    slurm.set_features("t2", ("a100", "ds_c4_0123456789ab"))
    node = slurm.node("t2")
    assert node.features == node.active_features == ("a100", "ds_c4_0123456789ab")
    number = cluster.sbatch("#!/bin/sh\nsleep 300\n", "-C", "ds_c4_0123456789ab")
    wait_state(slurm, number, "RUNNING")
    assert slurm.job(str(number)).nodes == ("t2",)
    slurm.set_features("t2", ("a100",))
    assert slurm.node("t2").features == ("a100",)
    assert slurm.node("t1").features == ()
    cluster.scontrol("update", "NodeName=t2", "AvailableFeatures=a100,held", "ActiveFeatures=a100")
    slurm.set_features("t2", ("a100", "held", "new"))
    assert slurm.node("t2").active_features == ("a100", "new")
    slurm.set_features("t2", ())
    assert (slurm.node("t2").features, slurm.node("t2").active_features) == ((), ())
    for bad in (("a,b",), ("a", "a"), ("",), ("a&b",), ("x State=DOWN",)):
        with pytest.raises(SlurmRefused):
            slurm.set_features("t2", bad)


@pytest.mark.parametrize("name", ["ALL", "all", "t[1-4]", "t1,t2", "", "t1 State=DOWN", "-a"])
def test_no_more_than_one_node_is_ever_changed(slurm: Slurm, name: str) -> None:
    if name != "-a":
        with pytest.raises(SlurmRefused, match="not one node's name"):
            slurm.down(name, "slurm_io: test")
    else:
        with pytest.raises(SlurmNotFound):
            slurm.down(name, "slurm_io: test")
    assert {node.base for node in slurm.nodes()} == {"IDLE"}


# -- jobs ----------------------------------------------------------------------------------------


def test_a_running_batch_job_is_requeued_and_started_as_soon_as_is_safe(
    slurm: Slurm, cluster: SlurmCluster
) -> None:
    options = ["--requeue", f"--job-name={HOSTILE}", "--comment=a b|c=d", "-w", "t1", "-x", "t4"]
    number = cluster.sbatch("#!/bin/sh\nsleep 300\n", *options, nodes=2)
    wait_state(slurm, number, "RUNNING")
    job = slurm.job(str(number))
    assert (job.name, job.user, job.comment) == (HOSTILE, "games", "a b|c=d")
    assert (job.nodes[0], job.pinned_to, job.excludes) == ("t1", ("t1",), ("t4",))
    assert (job.batch, job.may_requeue, job.restarts) == (True, True, 0)
    assert job.start_s is not None and job.time_limit_s == 3600 and not job.no_time_limit
    assert sorted(node for node, _ in job.shares) == sorted(job.nodes)

    requeued = slurm.requeue(str(number))
    killed_s = time.time()
    assert requeued.expected_start_s is not None
    assert 4 <= requeued.expected_start_s - time.time() <= 30
    assert "BeginTime" in requeued.why
    wait_state(slurm, number, "PENDING")
    slurm.update_job(str(number), JobChange(pinned_to=(), excludes=(), start_s=0))
    wait_state(slurm, number, "RUNNING")
    again = slurm.job(str(number))
    assert (again.restarts, again.pinned_to, again.excludes) == (1, (), ())
    # A node on which it was killed in the second of its new start would refuse it for good, and
    # two nodes of three have one in common.
    assert again.start_s is not None and again.start_s - killed_s >= 3


def test_a_job_is_submitted_for_an_account_with_nothing_of_ours(
    slurm: Slurm, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_SECRET", "x")
    folder = cluster.work_dir(f"submit{time.monotonic_ns()}")
    make(slurm, "t2", "t3")
    wanted = NewJob(
        name="filler-spares",
        script="#!/bin/sh\nid -u; pwd; env; sleep 300\n",
        user="games",
        work_dir=str(folder),
        nodes=("t3", "t2"),
        partition="main",
        reservation="spares",
        comment="a b|c=d --uid=0",
        time_limit_s=90,
        requeue=True,
        output=f"{folder}/out-%j",
    )
    number = int(slurm.submit(wanted))
    wait_state(slurm, number, "RUNNING")
    job = slurm.job(str(number))
    assert (job.user, job.name, job.comment) == ("games", wanted.name, wanted.comment)
    assert (sorted(job.nodes), job.reservation) == (["t2", "t3"], "spares")
    assert (job.partition, job.time_limit_s, job.may_requeue) == ("main", 120, True)
    output = folder / f"out-{number}"
    wait_until(lambda: output.exists() and "SLURM_JOB_ID" in output.read_text(), 20, "its output")
    said = output.read_text().splitlines()
    assert said[:2] == ["5", str(folder)]
    assert "OUR_SECRET" not in output.read_text() and "USER=games" in said


@pytest.mark.parametrize(
    "change",
    [
        {"script": "sleep 1"},
        {"script": "#!/bin/sh\0"},
        {"user": "no-such-account"},
        {"name": "a b"},
        {"nodes": ("t[1-4]",)},
        {"nodes": ("t1", "t1")},
        {"qos": "x --uid=0"},
        {"comment": "a\nb"},
        {"output": "relative"},
        {"work_dir": "x"},
        {"reservation": "a,b"},
    ],
)
def test_a_job_that_would_be_another_one_is_not_submitted(
    slurm: Slurm, change: dict[str, object]
) -> None:
    wanted = NewJob("filler", "#!/bin/sh\n", "games", "/tmp")
    with pytest.raises(SlurmRefused):
        slurm.submit(replace(wanted, **change))  # type: ignore[arg-type]
    assert slurm.jobs() == () or all(job.name != "filler" for job in slurm.jobs())


def test_a_job_requeued_to_be_held_waits_for_its_release(
    slurm: Slurm, cluster: SlurmCluster
) -> None:
    number = str(cluster.sbatch("#!/bin/sh\nsleep 300\n", "--requeue"))
    wait_state(slurm, int(number), "RUNNING")
    assert slurm.requeue(number, hold=True).expected_start_s is None
    wait_until(lambda: slurm.job(number).is_held is True, 30, "held", 0.3)
    wait_state(slurm, int(number), "PENDING")
    slurm.release(number)
    wait_state(slurm, int(number), "RUNNING")
    assert slurm.job(number).is_held is False


def test_an_array_task_is_found_by_its_own_name(slurm: Slurm, cluster: SlurmCluster) -> None:
    array = cluster.sbatch("#!/bin/sh\nsleep 300\n", "--array=3-9:2%1")
    assert slurm.job(f"{array}_9").state == "PENDING"
    wait_until(lambda: slurm.job(f"{array}_3").state == "RUNNING", 30, "the task", 0.3)
    task = slurm.job(f"{array}_3")
    assert task.array == (str(array), 3)
    assert slurm.job(task.job_id).array == task.array or task.job_id == str(array)
    for other in ("4", "11"):
        with pytest.raises(SlurmNotFound):
            slurm.job(f"{array}_{other}")


def test_a_node_that_goes_down_gives_its_job_back(slurm: Slurm, cluster: SlurmCluster) -> None:
    number = cluster.sbatch("#!/bin/sh\nsleep 300\n", "--requeue", "-w", "t3")
    wait_state(slurm, number, "RUNNING")
    slurm.drain("t3", "slurm_io: test")
    assert slurm.job(str(number)).state == "RUNNING"  # a drain leaves it alone
    slurm.down("t3", "slurm_io: test")
    wait_state(slurm, number, "PENDING")
    node = slurm.node("t3")
    assert node.is_drained and node.reason is not None
    assert node.reason.text == "slurm_io: test"
    # Pinned to a node that is down it would wait for ever.
    slurm.update_job(str(number), JobChange(pinned_to=(), start_s=0))
    wait_state(slurm, number, "RUNNING")
    assert slurm.job(str(number)).nodes != ("t3",)
    slurm.resume("t3")
    wait_node(slurm, "t3", lambda node: node.is_free)


def test_what_cannot_be_requeued_is_refused_with_the_reason(
    slurm: Slurm, cluster: SlurmCluster
) -> None:
    kept = cluster.sbatch("#!/bin/sh\nsleep 300\n", "--no-requeue")
    waiting = cluster.sbatch("#!/bin/sh\nsleep 300\n", "--begin=now+1hour")
    wait_state(slurm, kept, "RUNNING")
    with pytest.raises(SlurmRefused, match="--no-requeue"):
        slurm.requeue(str(kept))
    with pytest.raises(SlurmRefused, match="waits already"):
        slurm.requeue(str(waiting))
    with pytest.raises(SlurmRefused, match="only a running job"):
        slurm.notify(str(waiting), "hello")
    assert slurm.job(str(kept)).restarts == 0


def test_words_reach_a_job_and_its_record(slurm: Slurm, cluster: SlurmCluster) -> None:
    folder = cluster.work_dir(f"notify{time.monotonic_ns()}")
    number = cluster.sbatch("#!/bin/sh\nsleep 300\n", work_dir=folder)
    wait_state(slurm, number, "RUNNING")
    output = folder / f"slurm-{number}.out"
    wait_until(output.exists, 20, "the job's output")

    def told() -> bool:
        slurm.notify(str(number), "slurm_io: node t1 = gone")
        return "slurm_io: node t1 = gone" in output.read_text()

    wait_until(told, 20, "the message in the output", 0.5)
    slurm.update_job(str(number), JobChange(comment="k=v w", admin_comment="verdict=storage"))
    job = slurm.job(str(number))
    assert (job.comment, job.admin_comment) == ("k=v w", "verdict=storage")
    slurm.cancel(str(number))
    wait_state(slurm, number, "CANCELLED")


def test_a_finished_job_is_commented_in_the_accounting(slurm: Slurm, cluster: SlurmCluster) -> None:
    number = cluster.sbatch("#!/bin/sh\ntrue\n")
    wait_state(slurm, number, "COMPLETED")

    def in_accounting() -> bool:
        slurm.update_job(str(number), JobChange(admin_comment="verdict=healthy idle=0.01"))
        asked = ["sacct", "-n", "-X", "-j", str(number), "-P", "-o", "AdminComment"]
        return parts.run(asked, cluster.env).stdout.strip() == "verdict=healthy idle=0.01"

    wait_until(in_accounting, 30, "the comment in the accounting", 0.5)
    with pytest.raises(SlurmRefused, match="no quotes"):
        slurm.update_job(str(number), JobChange(admin_comment='{"verdict": "healthy"}'))


# -- reservations --------------------------------------------------------------------------------


def test_the_life_of_a_reservation(slurm: Slurm) -> None:
    made = make(slurm, "t1", "t2")
    assert (made.nodes, made.users, made.cores) == (("t1", "t2"), ("games",), 8)
    assert "SPEC_NODES" in made.flags and "IGNORE_JOBS" not in made.flags
    assert made.is_active(time.time()) and made.problems == ()
    # "infinite" is a year.
    left_s = made.left_s(time.time())
    assert left_s is not None and 364 * 86400 < left_s <= 365 * 86400
    assert {node.name: node.reservation for node in slurm.nodes()} == {
        "t1": "spares", "t2": "spares", "t3": None, "t4": None
    }  # fmt: skip
    assert not slurm.node("t1").is_free and slurm.node("t1").is_idle

    assert slurm.change_reservation("spares", add=("t3",)).nodes == ("t1", "t2", "t3")
    swapped = slurm.change_reservation("spares", add=("t4",), remove=("t1", "t2"))
    assert swapped.nodes == ("t3", "t4")
    assert swapped.start_s == made.start_s
    assert slurm.change_reservation("spares", add=("t4",)) == swapped  # nothing to do

    assert made.end_s is not None
    later_s = made.end_s + 3600
    assert slurm.extend_reservation("spares", later_s).end_s == later_s
    with pytest.raises(SlurmRefused, match="not later"):
        slurm.extend_reservation("spares", later_s - 7200)
    slurm.delete_reservation("spares")
    assert slurm.reservations() == ()
    with pytest.raises(SlurmNotFound):
        slurm.delete_reservation("spares")


def test_a_reservation_never_loses_its_last_node_nor_takes_an_unknown_one(slurm: Slurm) -> None:
    before = make(slurm, "t1", "t2")
    with pytest.raises(SlurmRefused, match="no node left"):
        slurm.change_reservation("spares", remove=("t1", "t2"))
    with pytest.raises(SlurmNotFound, match="no node t9"):
        slurm.change_reservation("spares", add=("t9",))
    with pytest.raises(SlurmRefused, match="t4 is not in reservation"):
        slurm.change_reservation("spares", remove=("t4",))
    with pytest.raises(SlurmRefused, match="without nodes"):
        make(slurm, name="empty")
    with pytest.raises(SlurmRefused, match="already"):
        make(slurm, "t4")
    assert slurm.reservations() == (before,)


def test_a_change_by_somebody_else_is_noticed(slurm: Slurm, cluster: SlurmCluster) -> None:
    before = make(slurm, "t1", "t2")
    cluster.scontrol("update", "ReservationName=spares", "Nodes=t1,t3")
    with pytest.raises(SlurmRefused, match=r"has t\[1,3\] now, not t\[1-2\]"):
        slurm.change_reservation("spares", add=("t4",), expected=before)
    assert slurm.reservation("spares").nodes == ("t1", "t3")


def test_a_node_of_somebody_else_is_not_taken(slurm: Slurm, cluster: SlurmCluster) -> None:
    stranger = cluster.sbatch("#!/bin/sh\nsleep 300\n", "-w", "t3")
    wait_state(slurm, stranger, "RUNNING")
    make(slurm, "t1", "t2")
    make(slurm, "t4", name="others")
    with pytest.raises(SlurmRefused, match="IGNORE_JOBS is never set"):
        slurm.change_reservation("spares", add=("t3",))
    with pytest.raises(SlurmError, match="t4|overlap|busy"):
        slurm.change_reservation("spares", add=("t4",))
    assert slurm.reservation("spares").nodes == ("t1", "t2")
    assert slurm.job(str(stranger)).state == "RUNNING"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["NodeCnt=1"], "replaces a failed node with any idle one"),
        (["NodeCnt=1", "Flags=REPLACE"], "has REPLACE:"),
        (["NodeCnt=1", "Flags=REPLACE_DOWN"], "has REPLACE_DOWN:"),
        (["PartitionName=main", "Nodes=ALL", "Flags=PART_NODES"], "follows its partition"),
        (["CoreCnt=2", "Nodes=t2"], "2 of 4 cores"),
    ],
)
def test_a_reservation_whose_nodes_are_not_ours_to_set_is_refused(
    slurm: Slurm, cluster: SlurmCluster, words: list[str], told: str
) -> None:
    common = ["ReservationName=odd", "StartTime=now+60", "Duration=10", "Users=games"]
    cluster.scontrol("create", "reservation", *common, *words)
    before = slurm.reservation("odd")
    with pytest.raises(SlurmRefused, match=told):
        slurm.change_reservation("odd", add=("t3",))
    assert slurm.reservation("odd") == before


def test_a_job_in_the_reservation_keeps_it(slurm: Slurm, cluster: SlurmCluster) -> None:
    make(slurm, "t1", "t2")
    number = cluster.sbatch("#!/bin/sh\nsleep 300\n", "--reservation=spares")
    wait_state(slurm, number, "RUNNING")
    assert slurm.job(str(number)).reservation == "spares"
    with pytest.raises(SlurmRefused, match="its jobs run"):
        slurm.delete_reservation("spares")
    # Its own job keeps nobody from adding and removing nodes.
    (busy,) = slurm.job(str(number)).nodes
    assert slurm.change_reservation("spares", add=("t3",), remove=(busy,)).nodes[-1] == "t3"
    assert slurm.job(str(number)).state == "RUNNING"


# -- failures ------------------------------------------------------------------------------------


def test_an_ordinary_user_is_told_which_rights_are_missing(
    slurm: Slurm, cluster: SlurmCluster
) -> None:
    done = cluster.as_user(["scontrol", "update", "NodeName=t1", "State=DRAIN", "Reason=x"])
    finished = run_tool("scontrol", ("--version",), Limits(folders=FOLDERS))
    refused = replace(finished, return_code=done.returncode, stdout=done.stdout, stderr=done.stderr)
    assert done.returncode != 0
    error = complaint("scontrol", ("update", "NodeName=t1"), refused)
    assert isinstance(error, SlurmRefused) and "Administrator" in str(error)


def test_a_controller_that_hangs_is_given_up_in_time(
    backend: Callable[[float], Slurm], slurm: Slurm, cluster: SlurmCluster
) -> None:
    hasty = backend(1.0)
    pid = int((cluster.root / "slurmctld.pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        began_s = time.monotonic()
        for call in (hasty.nodes, hasty.reservations, lambda: hasty.drain("t1", "slurm_io: x")):
            with pytest.raises(SlurmUnreachable, match="slurmctld up"):
                call()
        assert not hasty.is_up()
        assert time.monotonic() - began_s < 15
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(slurm.is_up, 20, "slurmctld")
    cluster.scontrol("update", "NodeName=t1", "State=RESUME")


def test_a_controller_that_is_gone_is_told_apart_from_an_empty_cluster(
    backend: Callable[[float], Slurm],
    cluster: SlurmCluster,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (port,) = parts.free_ports(1)
    lines = cluster.conf_path.read_text().splitlines()
    kept = [line for line in lines if not line.startswith("SlurmctldPort=")]
    conf = tmp_path / "slurm.conf"
    conf.write_text("\n".join([*kept, f"SlurmctldPort={port}", "MessageTimeout=2"]) + "\n")
    monkeypatch.setenv("SLURM_CONF", str(conf))
    slurm = backend(8.0)
    assert not slurm.is_up()
    for call in (slurm.nodes, slurm.jobs, slurm.reservations, slurm.config):
        with pytest.raises(SlurmUnreachable):
            call()


def test_the_commands_say_which_slurm_they_are(cluster: SlurmCluster) -> None:
    said = parts.run(["scontrol", "--version"], cluster.env).stdout
    assert parse_version(said)[:2] == parts.slurm_version()
