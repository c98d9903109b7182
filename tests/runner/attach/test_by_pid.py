"""Attaching to a process tree that nobody prepared for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from slurm_io.collectors.stacks.program import find_py_spy
from slurm_io.runner.place import ring_dir_prefix
from tests.labs.hung_exec import hung_exec
from tests.labs.slowfs import fuse_missing
from tests.runner.attach.trees import (
    SLURM_IO,
    attach,
    clean_environment,
    of_attaches,
    processes,
    training,
    wait_until,
)


def shared_memory_naming(pid: int) -> list[Path]:
    """What lies in the ring folders of this user and bears a process's number."""
    folders = Path("/dev/shm").glob(f"{ring_dir_prefix()}*")
    return [path for folder in folders for path in folder.rglob(f"*-{pid}*")]


def below(pid: int) -> dict[str, bytes]:
    """What a process could tell by of having been watched: environment, limits, mask, priority."""
    proc = Path(f"/proc/{pid}")
    status = [
        line
        for line in (proc / "status").read_text().splitlines()
        if line.startswith(("Sig", "Shd", "TracerPid", "Threads", "Cpus_allowed:", "NoNewPrivs"))
        and not line.startswith("SigQ")
    ]
    stat = (proc / "stat").read_text().rpartition(")")[2].split()
    return {
        "environ": (proc / "environ").read_bytes(),
        "limits": (proc / "limits").read_bytes(),
        "status": "\n".join(status).encode(),
        "nice": stat[16].encode(),
        "oom": (proc / "oom_score_adj").read_bytes(),
        "fds": str(sorted(os.listdir(proc / "fd"))).encode(),  # noqa: PTH208
    }


@dataclass(frozen=True)
class Attached:
    """One attach of 3.5 s to a tree that went on, and what the world was like around it."""

    done: subprocess.CompletedProcess[str]
    store: Path
    report: dict[str, Any]
    left: set[int]
    ranks: tuple[dict[str, bytes], dict[str, bytes]]
    files: list[Path]


@pytest.fixture(scope="module")
def attached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attached]:
    folder = tmp_path_factory.mktemp("attached")
    with training(folder) as tree:
        children = Path(f"/proc/{tree.pid}/task/{tree.pid}/children").read_text().split()
        rank = int(children[0])
        of_rank = below(rank)
        done = attach(folder, "--pid", str(tree.pid), "-o", "out", "--duration", "3.5")
        assert done.returncode == 0, done.stderr
        yield Attached(
            done,
            folder / "out",
            json.loads((folder / "out/report.json").read_text()),
            of_attaches(folder),
            (of_rank, below(rank)),
            [*tree.tmp.iterdir(), *shared_memory_naming(rank)],
        )


def test_ranks_and_workers_are_told_without_a_hook(attached: Attached) -> None:
    coverage = attached.report["coverage"]
    assert (coverage["ranks_seen"], coverage["workers_seen"]) == (2, 4)
    assert (coverage["hook"], coverage["waits"]) == ("off", "on")
    node = coverage["nodes_seen"][0]
    meta = json.loads((attached.store / f"node={node}/meta.json").read_text())
    ranks = [(each["rank"], each["local_rank"], each["world_size"]) for each in meta["ranks"]]
    assert sorted(ranks) == [(0, 0, 2), (1, 1, 2)]


def test_nothing_is_claimed_that_only_the_hook_could_know(attached: Attached) -> None:
    report = attached.report
    assert report["verdict"] == "not-proven"
    assert report["idle"]["storage"] == {"low": None, "value": None, "high": None}
    assert report["findings"] == []
    reasons = {each["source"]: each["reason"] for each in report["coverage"]["missing"]}
    assert "--load-hook" in reasons["hook"]


def test_what_the_processes_waited_for_is_told_with_its_base(attached: Attached) -> None:
    seen = {each["role"]: each for each in attached.report["outside"]["seen"]}
    assert (seen["rank"]["processes"], seen["worker"]["processes"]) == (2, 4)
    shares = seen["worker"]["shares"]  # they sleep by themselves, or on the full queue's semaphore
    assert shares["sleep"] > 0.2
    assert shares["sleep"] + shares.get("lock", 0) + shares.get("pipe", 0) > 0.6
    assert sum(shares.values()) == pytest.approx(1, abs=0.001)
    assert "Seen from outside" in attached.done.stdout
    assert attached.report["job"]["state"] == "RUNNING"
    assert 3 <= attached.report["time"]["wall_s"] <= 4.5


def test_nothing_is_left_behind(attached: Attached) -> None:
    assert attached.left == set()
    assert attached.files == []
    before_rank, after_rank = attached.ranks
    assert after_rank == before_rank
    assert not (attached.store / "run.log").exists()


def test_report_text_goes_to_stdout_and_where_it_lies_to_stderr(attached: Attached) -> None:
    assert attached.done.stdout.startswith("slurm-io: NOT PROVEN")
    assert "watching process" in attached.done.stderr
    assert "2 ranks" in attached.done.stderr
    assert str(attached.store) in attached.done.stderr


@pytest.mark.skipif(find_py_spy(os.environ.get("PATH")) is None, reason="py-spy is not installed")
def test_stacks_are_recorded_when_they_are_asked_for(tmp_path: Path) -> None:
    """Of ranks that only their environment tells of; too few here to stand for the hook."""
    with training(tmp_path) as tree:
        words = ("--pid", str(tree.pid), "-o", "out", "--duration", "9", "--stacks")
        done = attach(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["coverage"]["stacks"] == "on"
    assert report["verdict"] == "not-proven"


def test_the_end_of_the_tree_ends_the_attach(tmp_path: Path) -> None:
    with training(tmp_path, seconds=4, ranks=1) as tree:
        done = attach(tmp_path, "--pid", str(tree.pid), "-o", "out", "--duration", "60", "--json")
    assert done.returncode == 0, done.stderr
    assert "and all below it ended after" in done.stderr
    report = json.loads(done.stdout)
    assert report["job"]["state"] is None
    assert report["time"]["wall_s"] < 20


def test_ctrl_c_ends_it_early_and_the_report_comes(tmp_path: Path) -> None:
    with training(tmp_path, ranks=1) as tree:
        process = tree.attach("-o", "out", "--duration", "60")
        wait_until(lambda: list(tree.tmp.glob("*/waits.arrows")))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert out.startswith("slurm-io: NOT PROVEN")
    assert list(tree.tmp.iterdir()) == []


def test_kill_9_ends_the_sampler_and_the_data_can_be_had(tmp_path: Path) -> None:
    with training(tmp_path, ranks=1) as tree:
        process = tree.attach("-o", "out", "--duration", "60")
        wait_until(lambda: list(tree.tmp.glob("*/waits.arrows")))
        claim = json.loads(next(tree.tmp.glob("*/sampler.pid")).read_text())
        assert len(of_attaches(tmp_path)) == 2
        process.kill()
        process.communicate()
        wait_until(lambda: (claim["pid"], claim["starttime"]) not in processes(), 10)
        assert of_attaches(tmp_path) == set()
        meta = json.loads(next(tree.tmp.glob("*/meta.json")).read_text())
        assert (meta["clean_end"], meta["end_reason"]) == (True, "who attached is gone")
        told = subprocess.run(
            [*SLURM_IO, "report", "out", "--json"],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["coverage"]["ranks_seen"] == 1
    assert list(tree.tmp.iterdir()) == []


HOOKED = """
import sys, time
from slurm_io_hook import watch

def batches(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)
        yield b"batch"

for _ in watch(batches(float(sys.argv[1]))):
    time.sleep(0.01)
"""


def test_a_run_that_is_recorded_already_is_read_along_and_not_disturbed(tmp_path: Path) -> None:
    command = [*SLURM_IO, "run", "-o", "run", "--", sys.executable, "-c", HOOKED, "12"]
    run = subprocess.Popen(command, cwd=tmp_path, env=clean_environment())
    try:
        wait_until(lambda: _ring_of(run.pid))
        ring = _ring_of(run.pid)
        inode = ring[0].stat().st_ino
        done = attach(tmp_path, "--pid", str(run.pid), "-o", "along", "--duration", "6", "--json")
        assert done.returncode == 0, done.stderr
        assert ring[0].stat().st_ino == inode
    finally:
        run.wait(60)
    along = json.loads(done.stdout)
    assert "its hook is read along" in done.stderr
    assert (along["coverage"]["hook"], along["coverage"]["ranks_seen"]) == ("on", 1)
    assert 20 < along["time"]["steps"] < 400
    assert along["time"]["startup_s"] is None  # nobody saw it
    assert along["time"]["training_s"] < 8
    whole = json.loads((tmp_path / "run/report.json").read_text())
    assert whole["coverage"]["gaps_s"] == 0
    assert whole["time"]["training_s"] > 9
    assert not ring[0].exists()  # the run removes what is its own


def _ring_of(wrapper: int) -> list[Path]:
    """The ring of the only rank below a wrapper; other tests' runs are in its process group too."""
    below = {each.pid for each in psutil.Process(wrapper).children(recursive=True)}
    rings = Path("/dev/shm").glob(f"{ring_dir_prefix()}*/ring-*")
    return [path for path in rings if int(path.name.split("-")[1]) in below]


def test_a_running_python_that_is_too_old_for_the_hook_is_told_in_one_line(tmp_path: Path) -> None:
    if sys.version_info >= (3, 14):
        pytest.skip("this Python takes the hook: tests/hook/test_late.py")
    with training(tmp_path, ranks=1) as tree:
        done = attach(
            tmp_path, "--pid", str(tree.pid), "-o", "out", "--duration", "3", "--load-hook"
        )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "runs Python 3." in line]
    assert len(lines) == 1
    assert "from 3.14 on; start the job under `slurm-io run` instead" in lines[0]


def test_a_second_attach_does_not_take_the_store_of_the_first(tmp_path: Path) -> None:
    with training(tmp_path, ranks=1) as tree:
        (tmp_path / "out").mkdir()
        (tmp_path / "out/job.json").write_text("{}")
        done = attach(tmp_path, "--pid", str(tree.pid), "-o", "out", "--duration", "3")
    assert done.returncode == 2
    assert "already holds a run" in done.stderr
    assert "watching" not in done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["job.json"]
    assert list(tree.tmp.iterdir()) == []


@pytest.mark.skipif(fuse_missing() is not None, reason=str(fuse_missing()))
def test_a_process_that_hangs_in_execve_is_refused_in_one_line(tmp_path: Path) -> None:
    with hung_exec(tmp_path / "slow") as hung:
        hung.hang()
        command = [sys.executable, "-m", "slurm_io", "attach", "--pid", str(hung.pid)]
        said = subprocess.run(
            [*command, "-o", str(tmp_path / "seen"), "--duration", "3"],
            check=False,
            capture_output=True,
            text=True,
            timeout=20,
        )
        hung.release()
    assert said.returncode == 3
    assert f"process {hung.pid} hangs: /proc/{hung.pid}/" in said.stderr
    assert len(said.stderr.splitlines()) == 1


@pytest.mark.skipif(fuse_missing() is not None, reason=str(fuse_missing()))
def test_a_process_that_hangs_elsewhere_keeps_no_attach_waiting(tmp_path: Path) -> None:
    with hung_exec(tmp_path / "slow") as hung:
        busy = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        hung.hang()
        command = [sys.executable, "-m", "slurm_io", "attach", "--pid", str(busy.pid)]
        try:
            said = subprocess.run(
                [*command, "-o", str(tmp_path / "seen"), "--duration", "3"],
                check=False,
                capture_output=True,
                text=True,
                timeout=44,
            )
        finally:
            hung.release()
            busy.kill()
            busy.wait()
    assert said.returncode == 0, said.stderr
