"""Questions to the nodes of a real cluster: idle, busy, drained, dead and hung ones."""

from __future__ import annotations

import json
import pwd
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_io.errors import SlurmNotFound, SlurmRefused
from slurm_io.reservation.model import Answer
from slurm_io.reservation.reach import SlurmReach
from slurm_io.reservation.reach.limits import ReachLimits, Way
from slurm_io.slurm.base import NewReservation
from slurm_io.slurm.cli import CliSlurm
from slurm_io.slurm.tools import Limits
from tests.cluster.conftest import require_cluster
from tests.labs import cluster_parts as parts
from tests.labs.cluster import SlurmCluster
from tests.labs.hooked_cluster import HookedCluster

pytestmark = pytest.mark.cluster
FOLDERS = tuple(parts.SBIN_PATH.split(":"))
LIMIT_S = 60.0
# Stands in for commands of ours that take their time, read stdin or say too much.
SHELL = """\
import os, sys
if sys.orig_argv[1:4] == ["-m", "slurm_io", "test-shell"]:
    os.execv("/bin/sh", ["sh", "-c", sys.orig_argv[4]])
forging = os.path.join(os.path.dirname(__file__), "forging")
is_part = sys.orig_argv[1:3] == ["-m", "slurm_io.reservation.reach.node_part"]
if is_part and os.path.exists(forging) and os.environ.get("SLURMD_NODENAME") == "t1":
    for task in range(4):
        for sign in ("", "srun: ", "\\r", "x" * 2000 + "srun: ", "x" * 1024, "x" * 1021):
            host = "t2" if task == int(os.environ["SLURM_PROCID"]) else "t9"
            print(f"{sign}launching StepId=1.0 on host {host}, 1 tasks: {task}", file=sys.stderr)
    print('slurm_io.["t2", 0, "forged", "", null]')
    sys.stdout.flush(), sys.stderr.flush()
"""


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[SlurmCluster]:
    require_cluster()
    with SlurmCluster(nodes=4, dbd=False) as started:
        (started.root / "shell").mkdir()
        (started.root / "shell" / "sitecustomize.py").write_text(SHELL)
        yield started


@pytest.fixture
def cluster(own_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    monkeypatch.setenv("SLURM_CONF", str(own_cluster.conf_path))
    monkeypatch.setenv("PYTHONPATH", str(own_cluster.root / "shell"))
    yield own_cluster
    slurm = access()
    for job in slurm.jobs():
        if job.state in ("PENDING", "RUNNING"):
            slurm.cancel(job.job_id)
    for name, state in own_cluster.node_states().items():
        if state.startswith(("drain", "drng", "down")):
            own_cluster.scontrol("update", f"NodeName={name}", "State=RESUME")
    for each in slurm.reservations():
        parts.wait_until(lambda name=each.name: is_deleted(slurm, name), 30, "no reservation", 0.5)
    own_cluster.heal()


def is_deleted(slurm: CliSlurm, name: str) -> bool:
    """Slurm refuses while the reservation's jobs end."""
    try:
        slurm.delete_reservation(name)
    except SlurmRefused:
        return False
    except SlurmNotFound:
        return True
    return True


def access() -> CliSlurm:
    return CliSlurm(Limits(30.0, folders=FOLDERS))


def reach(way: Way, **more: int) -> SlurmReach:
    return SlurmReach(access(), ReachLimits(way=way, folders=FOLDERS, **more))


def shell(text: str) -> list[str]:
    return ["test-shell", text]


def occupy(cluster: SlurmCluster, *nodes: str, options: tuple[str, ...] = ()) -> int:
    wanted = ["--exclusive", "-w", ",".join(nodes), *options]
    number = cluster.sbatch("#!/bin/sh\nsleep 300\n", *wanted, nodes=len(nodes))
    cluster.wait(number, "RUNNING")
    return number


def ours(cluster: SlurmCluster) -> list[str]:
    """Names of our jobs that have not ended."""
    done = parts.run(["squeue", "-h", "-o", "%j"], cluster.env)
    return [line for line in done.stdout.splitlines() if line.startswith("slurm_io-ask")]


def is_version(answer: Answer) -> bool:
    return answer.rc == 0 and answer.stdout.startswith(b"slurm-io, version")


@pytest.mark.parametrize("way", ["direct", "jobs", "auto"])
def test_idle_and_busy_nodes_answer_at_once(cluster: SlurmCluster, way: Way) -> None:
    busy = occupy(cluster, "t1", "t3")
    answers = reach(way).ask(cluster.node_names, ["--version"], LIMIT_S)
    assert list(answers) == cluster.node_names
    assert all(map(is_version, answers.values())), answers
    assert cluster.state(busy) == "RUNNING"
    parts.wait_until(lambda: not ours(cluster), 20, "our jobs gone")


@pytest.mark.parametrize("way", ["direct", "jobs"])
def test_each_node_speaks_for_itself(cluster: SlurmCluster, way: Way) -> None:
    occupy(cluster, "t2")
    answers = reach(way).ask(["t3", "t2", "t1"], ["check", "--json"], LIMIT_S)
    assert {node: json.loads(each.stdout)["node"] for node, each in answers.items()} == {
        "t3": "t3", "t2": "t2", "t1": "t1",
    }  # fmt: skip


def test_a_reservation_that_is_not_roots_says_what_to_set(cluster: SlurmCluster) -> None:
    access().create_reservation(NewReservation("spares", ("t1", "t2"), users=("games",)))
    answers = reach("jobs").ask(["t1", "t3"], ["--version"], LIMIT_S, reservation="spares")
    assert is_version(answers["t3"])
    if not is_version(answers["t1"]):  # later versions let root in
        assert 'set [spares] reach = "direct"' in str(answers["t1"].problem)
    cluster.scontrol("update", "ReservationName=spares", "Users=games,root")
    for way in ("jobs", "direct"):
        answers = reach(way).ask(["t1", "t2", "t3"], ["--version"], LIMIT_S, reservation="spares")
        assert all(map(is_version, answers.values())), answers


def test_where_root_may_have_no_job_it_says_what_to_set(
    cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SlurmCluster(nodes=1, dbd=False, extra="DisableRootJobs=YES\n") as strict:
        monkeypatch.setenv("SLURM_CONF", str(strict.conf_path))
        answer = reach("jobs").ask(["t1"], ["--version"], LIMIT_S)["t1"]
        assert "DisableRootJobs=YES" in str(answer.problem)
        assert is_version(reach("direct").ask(["t1"], ["--version"], LIMIT_S)["t1"])
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf_path))


def test_a_drained_node_is_reached_directly_only(cluster: SlurmCluster) -> None:
    cluster.scontrol("update", "NodeName=t2", "State=DRAIN", "Reason=disk")
    answers = reach("jobs").ask(["t1", "t2"], ["--version"], LIMIT_S)
    assert is_version(answers["t1"])
    assert "drained: disk: it takes no new job" in str(answers["t2"].problem)
    assert is_version(reach("direct").ask(["t2"], ["--version"], LIMIT_S)["t2"])


@pytest.mark.parametrize("way", ["direct", "jobs"])
def test_a_node_whose_slurmd_is_dead_keeps_nobody_else(cluster: SlurmCluster, way: Way) -> None:
    cluster.kill_slurmd("t4")
    answers = reach(way).ask(cluster.node_names, ["--version"], 36.0)
    assert [is_version(answers[name]) for name in cluster.node_names] == [True] * 3 + [False]
    assert answers["t4"].rc is None and answers["t4"].problem
    parts.wait_until(lambda: not ours(cluster), 30, "our jobs gone")


def test_our_own_prolog_takes_it_for_no_job(
    running_cluster: HookedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would start a sampler that no epilog ends."""
    running_cluster.install_hooks()
    running_cluster.heal()
    monkeypatch.setenv("SLURM_CONF", str(running_cluster.conf_path))
    assert access().config().has_prolog is True
    answers = reach("direct").ask(running_cluster.node_names, ["--version"], LIMIT_S)
    assert all(map(is_version, answers.values())), answers
    said = [line for line in running_cluster.hooks_log.splitlines() if "--no-allocate" in line]
    assert len(said) == len(running_cluster.node_names)
    assert set(running_cluster.node_states().values()) == {"idle"}


@pytest.mark.parametrize("way", ["direct", "jobs"])
def test_a_program_that_hangs_on_one_node_is_ended_there(cluster: SlurmCluster, way: Way) -> None:
    occupy(cluster, "t1")
    text = 'test "$SLURMD_NODENAME" = t2 || { echo fine; exit 4; }; exec sleep 6543'
    began_s = time.monotonic()
    answers = reach(way).ask(["t1", "t2", "t3"], shell(text), 20.0)
    assert time.monotonic() - began_s < 50
    assert (answers["t2"].rc, "did not end within" in str(answers["t2"].problem)) == (None, True)
    for name in ("t1", "t3"):
        assert (answers[name].rc, answers[name].stdout.strip()) == (4, b"fine"), answers[name]
    parts.wait_until(lambda: not parts.processes_naming("6543"), 20, "no sleep left")
    parts.wait_until(lambda: not ours(cluster), 20, "our jobs gone")


@pytest.mark.parametrize("way", ["direct", "jobs"])
def test_stdin_reaches_every_node(cluster: SlurmCluster, way: Way) -> None:
    occupy(cluster, "t1")
    secret = b"key=\x00\xff\n" + b"x" * 200_000
    answers = reach(way).ask(["t1", "t2"], shell("cksum"), LIMIT_S, stdin=secret)
    counts = {each.stdout.split()[1:] == [str(len(secret)).encode()] for each in answers.values()}
    assert counts == {True}, answers
    too_long = reach(way, stdin_bytes=10).ask(["t1"], ["--version"], LIMIT_S, stdin=b"x" * 11)
    assert "more than 10 bytes" in str(too_long["t1"].problem)


def test_an_answer_over_the_bound_is_that_nodes_problem_alone(cluster: SlurmCluster) -> None:
    text = 'test "$SLURMD_NODENAME" = t2 && exec yes; head -c 90000 /dev/zero | tr "\\0" a'
    answers = reach("auto", stdout_bytes=100_000).ask(["t1", "t2"], shell(text), 20.0)
    assert answers["t1"].stdout == b"a" * 90_000
    assert answers["t2"].rc is None and answers["t2"].problem


def test_what_a_program_prints_forges_no_other_nodes_answer(cluster: SlurmCluster) -> None:
    forged = 'slurm_io.["t1", 0, "forged", "", null]'
    text = f"echo '{forged}'; echo '0: {forged}'; echo '{forged}' >&2"
    answers = reach("auto").ask(["t1", "t2"], shell(text), LIMIT_S)
    for name in ("t1", "t2"):
        assert answers[name].rc == 0 and forged.encode() in answers[name].stdout


@pytest.mark.parametrize("way", ["direct", "jobs"])
def test_a_node_that_speaks_like_srun_harms_no_other_nodes_answer(
    own_cluster: SlurmCluster, cluster: SlurmCluster, way: Way
) -> None:
    """What its part prints on stderr comes among srun's own words."""
    forging = own_cluster.root / "shell" / "forging"
    forging.touch()
    try:
        answers = reach(way).ask(["t1", "t2", "t3"], shell("echo true"), LIMIT_S)
    finally:
        forging.unlink()
    assert answers["t1"].rc is None and answers["t1"].problem
    assert {name: answers[name].stdout for name in ("t2", "t3")} == dict.fromkeys(
        ("t2", "t3"), b"true\n"
    ), answers


def test_an_answer_that_came_as_somebody_is_marked_as_his(cluster: SlurmCluster) -> None:
    """A step in a user's job is the user's process: he could have made it say anything."""
    job = occupy(cluster, "t2")
    answers = reach("jobs").ask(["t1", "t2"], ["--version"], LIMIT_S)
    assert answers["t1"].uid is None
    assert all(map(is_version, answers.values())), answers
    assert answers["t2"].uid == pwd.getpwnam(cluster.user).pw_uid
    assert cluster.state(job) == "RUNNING"


def test_slurmctld_that_is_gone_is_an_answer_for_every_node(
    cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = CliSlurm(Limits(2.0, folders=FOLDERS))
    with monkeypatch.context() as patch:
        patch.setenv("SLURM_CONF", "/nonexistent/slurm.conf")
        answers = SlurmReach(slurm).ask(["t1", "t2"], ["--version"], 10.0)
    assert all(each.rc is None and each.problem for each in answers.values())


def test_a_node_that_stops_in_the_middle_costs_its_own_answer_only(cluster: SlurmCluster) -> None:
    """Killed while its program runs: slurmd, the step and the program."""
    done = cluster.root / "reached-"
    text = f'test "$SLURMD_NODENAME" = t3 && exec sleep 7654; echo fine; : >{done}$SLURMD_NODENAME'

    def kill() -> None:
        parts.wait_until(
            lambda: bool(parts.processes_naming("sleep\x007654")), 20, "the program runs"
        )
        for name in ("t1", "t2"):  # Slurm ends the step everywhere: see that theirs have ended
            parts.wait_until(Path(f"{done}{name}").exists, 20, f"{name} has answered")
        cluster.kill_node("t3")

    killer = threading.Thread(target=kill)
    killer.start()
    answers = reach("auto").ask(["t1", "t2", "t3"], shell(text), 25.0)
    killer.join()
    assert answers["t3"].rc is None and answers["t3"].problem
    assert [answers[name].stdout for name in ("t1", "t2")] == [b"fine\n"] * 2
