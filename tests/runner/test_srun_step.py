"""``srun slurm-io run``: one sampler on each node, one store, and every task's end its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_io.runner.job_store import told_by_nodes
from slurm_io.store.reader import open_job
from tests.runner.srun_tasks import FakeStep, all_ended, fresh_job, until


@pytest.fixture
def step(tmp_path: Path) -> Iterator[FakeStep]:
    step = FakeStep(tmp_path, fresh_job())
    yield step
    step.forget()


def codes(*tasks: subprocess.Popen[bytes]) -> list[int]:
    return [task.wait(timeout=60) for task in tasks]


def led(step: FakeStep, task: int, *argv: str, **set_: str) -> subprocess.Popen[bytes]:
    """A task that has become the leader."""
    leader = step.start(task, *argv, **set_)
    until(lambda: any((folder / "open").exists() for folder in step.meetings()))
    return leader


def test_two_tasks_one_store_two_ranks_and_their_own_exit_codes(step: FakeStep) -> None:
    tasks = [step.start_rank(0, 2.0, code=0), step.start_rank(1, 2.0, code=5)]
    with all_ended(*tasks):
        assert codes(*tasks) == [0, 5]
        assert [task.communicate() for task in tasks] == [(b"", b"")] * 2
    assert step.stores() == [step.store.name]
    report = step.told("report.json")
    assert report["coverage"]["ranks_seen"] == 2
    assert report["coverage"]["nodes_seen"] == report["coverage"]["nodes_expected"] == ["n1"]
    assert sorted(rank["rank"] for rank in step.told("node=n1/meta.json")["ranks"]) == [0, 1]
    assert step.told("DONE.n1")["clean"] is True
    assert step.meetings() == []


def test_a_follower_is_the_command_itself(step: FakeStep) -> None:
    leader = led(step, 0, "sleep", "30")
    follower = step.start(1, sys.executable, "-c", "import os; print(os.getpid(), os.getppid())")
    with all_ended(leader, follower):
        out, _ = follower.communicate(timeout=30)
        assert out.split() == [str(follower.pid).encode(), str(os.getpid()).encode()]


def test_a_followers_signals_are_as_they_would_be_without_us(step: FakeStep) -> None:
    show = ("grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status")
    plain = subprocess.run(show, capture_output=True, check=True).stdout
    leader = led(step, 0, "sleep", "30")
    follower = step.start(1, *show)
    with all_ended(leader, follower):
        assert follower.communicate(timeout=30)[0] == plain


def test_a_follower_killed_by_a_signal_dies_of_it(step: FakeStep) -> None:
    leader = led(step, 0, "sleep", "30")
    follower = step.start(1, "sh", "-c", "kill -9 $$")
    with all_ended(leader, follower):
        assert follower.wait(timeout=30) == -signal.SIGKILL


def test_a_follower_without_a_command_to_run_says_so(step: FakeStep) -> None:
    leader = led(step, 0, "sleep", "30")
    follower = step.start(1, "no-such-command-anywhere")
    with all_ended(leader, follower):
        _, errors = follower.communicate(timeout=30)
        assert follower.returncode == 127
        assert errors == b"slurm-io: no-such-command-anywhere: No such file or directory\n"


def test_a_follower_that_outlives_the_leaders_command_is_seen_to_its_end(step: FakeStep) -> None:
    leader = led(step, 0, "sleep", "1.5")
    follower = step.start_rank(1, 5.0)
    with all_ended(leader, follower):
        assert follower.wait(timeout=60) == 0
        assert leader.poll() is None, "it has still to deliver"
        assert leader.wait(timeout=60) == 0
    (rank,) = step.told("node=n1/meta.json")["ranks"]
    assert (rank["last_ts_ns"] - rank["first_ts_ns"]) / 1e9 > 4.5
    assert step.told("node=n1/meta.json")["end_reason"] in ("told to stop", "job ended")


def test_a_killed_sampler_costs_no_step_of_a_follower(step: FakeStep) -> None:
    leader = led(step, 0, "sleep", "1.5")
    follower = step.start_rank(1, 6.0)
    with all_ended(leader, follower):
        (spool,) = (step.folder / "tmp").glob("slurm-io-spool-*")
        until((spool / "sampler.pid").exists)
        until(lambda: any(list(folder.glob("ring-*")) for folder in step.meetings()))
        os.kill(json.loads((spool / "sampler.pid").read_text())["pid"], signal.SIGKILL)
        assert follower.wait(timeout=60) == 0
        assert leader.wait(timeout=60) == 0
    (rank,) = step.told("node=n1/meta.json")["ranks"]
    assert (rank["last_ts_ns"] - rank["first_ts_ns"]) / 1e9 > 5.5
    batches = open_job(step.store).table("steps", ["batch"])["batch"].to_pylist()
    assert batches == list(range(len(batches)))
    assert step.told("DONE.n1")["missing"] == []


def test_a_leader_that_outlives_its_followers_goes_on(step: FakeStep) -> None:
    leader = step.start_rank(0, 4.0, code=0)
    until(lambda: any((folder / "open").exists() for folder in step.meetings()))
    follower = step.start_rank(1, 0.5, code=3)
    with all_ended(leader, follower):
        assert follower.wait(timeout=30) == 3
        assert leader.wait(timeout=60) == 0
    assert step.told("report.json")["coverage"]["ranks_seen"] == 2


def test_a_leader_told_to_end_does_not_wait_for_followers(step: FakeStep) -> None:
    leader = led(step, 0, "sleep", "0.5")
    follower = step.start(1, "sleep", "60")
    with all_ended(leader, follower):
        until(lambda: any(list(folder.glob("task-*")) for folder in step.meetings()))
        time.sleep(1.5)  # its command has ended, it waits
        assert leader.poll() is None
        leader.send_signal(signal.SIGTERM)
        assert leader.wait(timeout=20) == 0
        assert follower.poll() is None
    assert step.told("DONE.n1")["missing"] == ["1 tasks outlived their sampler"]


def test_a_failure_of_the_leaders_command_is_not_held_back(step: FakeStep) -> None:
    """srun -K stops the other tasks only when it learns of the failure."""
    leader = led(step, 0, "sh", "-c", "sleep 0.5; exit 9")
    follower = step.start(1, "sleep", "60")
    with all_ended(leader, follower):
        assert leader.wait(timeout=30) == 9
        assert follower.poll() is None


def test_a_killed_leader_costs_the_followers_nothing_and_newcomers_lead(step: FakeStep) -> None:
    leader = led(step, 0, "sleep", "60")
    follower = step.start(1, "sh", "-c", "sleep 2; exit 4")
    with all_ended(leader, follower):
        until(lambda: any(list(folder.glob("task-*")) for folder in step.meetings()))
        leader.send_signal(signal.SIGKILL)
        newcomer = step.start(2, "sh", "-c", "exit 6")
        with all_ended(newcomer):
            assert codes(follower, newcomer) == [4, 6]
    assert step.stores() == [step.store.name, f"{step.store.name}-2"]


def test_two_lines_of_one_script_are_two_recordings(step: FakeStep) -> None:
    """A second run of a task must not join the first one's meeting: they would wait for ever."""
    wait = "while [ ! -e $1 ]; do sleep 0.02; done"
    first = led(step, 0, "sh", "-c", wait, "-", str(step.folder / "go"))
    follower = step.start(1, "true")
    with all_ended(first, follower):
        assert follower.wait(timeout=30) == 0
        second = step.start(1, "sh", "-c", "exit 8")  # led by nobody else: the first still runs
        with all_ended(second):
            assert second.wait(timeout=60) == 8
        (step.folder / "go").touch()
        assert first.wait(timeout=60) == 0
    assert step.stores() == [step.store.name, f"{step.store.name}-2"]


def test_an_explicit_store_is_shared_by_the_step_and_refused_to_another(step: FakeStep) -> None:
    options = ("-o", "mine", "--no-report")
    tasks = [step.start(task, "sleep", "0.5", options=options) for task in (0, 1)]
    with all_ended(*tasks):
        assert codes(*tasks) == [0, 0]
    other = FakeStep(step.folder, fresh_job())
    late = [other.start(task, "touch", "ran", options=options) for task in (0, 1)]
    with all_ended(*late):
        assert codes(*late) == [2, 2]
        assert b"mine already holds a run" in late[0].communicate()[1]
    assert not (step.folder / "ran").exists()
    assert other.meetings() == []


def test_two_nodes_share_one_store(tmp_path: Path) -> None:
    step = FakeStep(tmp_path, fresh_job(), nodes=("n1", "n2"))
    tasks = [step.start_rank(0, 2.0), step.start_rank(1, 2.0, code=3, node="n2")]
    with all_ended(*tasks):
        assert codes(*tasks) == [0, 3]
    assert step.stores() == [step.store.name]
    coverage = step.told("report.json")["coverage"]
    assert coverage["nodes_expected"] == coverage["nodes_seen"] == ["n1", "n2"]
    assert coverage["ranks_seen"] == 2
    told = step.told("job.json")
    assert (told["spool"], told["exit_code"]) == (None, 3)
    assert [told["exit_code"] for told in told_by_nodes(step.store)[1:]] == [0, 3]
    assert sorted(open_job(step.store).nodes) == ["n1", "n2"]


def test_many_nodes_leave_few_files(tmp_path: Path) -> None:
    nodes = ("n1", "n2", "n3", "n4")
    step = FakeStep(tmp_path, fresh_job(), nodes=nodes, tasks=4)
    tasks = [step.start_rank(at, 2.0, code=at, node=node) for at, node in enumerate(nodes)]
    with all_ended(*tasks):
        assert codes(*tasks) == [0, 1, 2, 3]
    assert not (step.store / "run.log").exists()
    left = {path.name for path in step.store.iterdir() if path.suffix != ".parquet"}
    assert left == {
        "analysed.json", "compacted.json", "job.json", "nodes.jsonl", "report.json", "report.txt",
    }  # fmt: skip
    assert sorted(open_job(step.store).nodes) == list(nodes)
    assert step.told("report.json")["coverage"]["nodes_seen"] == list(nodes)
    assert [told["exit_code"] for told in told_by_nodes(step.store)[1:]] == [0, 1, 2, 3]
    assert step.told("job.json")["exit_code"] == 1
    again = [sys.executable, "-m", "slurm_io", "report", "--json", str(step.store)]
    done = subprocess.run(again, capture_output=True, check=True)
    assert json.loads(done.stdout) == step.told("report.json")


def test_a_single_task_of_a_step_meets_nobody(tmp_path: Path) -> None:
    step = FakeStep(tmp_path, fresh_job(), tasks=1)
    for _ in range(2):
        task = step.start(0, "true", options=("--no-report",))
        with all_ended(task):
            assert codes(task) == [0]
    assert step.stores() == [step.store.name, f"{step.store.name}-2"]
