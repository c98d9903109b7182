"""kill -9 of the sampler costs no step that its rings still hold: each is in the store, once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_io.sampler.leftover import take_over
from slurm_io.store.seal import seal_spool
from tests.crash.killed_run import Run, let_it_record, profiled_run, report
from tests.crash.stores import steps_of
from tests.crash.watched_job import wait_until
from tests.sampler.dead_sampler import DeadSampler, batches, meta_of, train
from tests.sampler.ring_maker import RingMaker
from tests.sampler.running_sampler import make_spool

UNTIL_TOLD = """
import os, sys, time
import slurm_io_hook

def beats(folder):
    number = 0
    while not os.path.exists(folder + "/end"):
        time.sleep(0.005)
        yield number
        number += 1
        if not number % 50:
            open(folder + "/passed", "w").write(str(number))
    open(folder + "/batches", "w").write(str(number))

for _batch in slurm_io_hook.watch(beats({folder!r})):
    pass
"""


def passed(folder: Path) -> int:
    """Batches that the job has made, as it says itself every now and then."""
    try:
        return int((folder / "passed").read_text() or 0)
    except FileNotFoundError:
        return 0


def kill_the_sampler_and_go_on(run: Run, folder: Path) -> None:
    """So much that a reader of what the sampler wrote could not know of it."""
    let_it_record()
    os.kill(run.sampler_pid, signal.SIGKILL)
    before = passed(folder)
    wait_until(lambda: passed(folder) >= before + 400)


def end_the_command(folder: Path) -> int:
    """The command ends by itself; how many batches it made."""
    (folder / "end").touch()
    wait_until(lambda: (folder / "batches").exists() and (folder / "batches").read_text() != "")
    return int((folder / "batches").read_text())


def test_a_sampler_killed_in_the_middle_of_a_run(tmp_path: Path) -> None:
    with profiled_run(tmp_path, UNTIL_TOLD.format(folder=str(tmp_path)), options=()) as run:
        kill_the_sampler_and_go_on(run, tmp_path)
        made = end_the_command(tmp_path)
        assert run.wrapper.wait(60) == 0
        assert [row["batch"] for row in steps_of(run.store)] == list(range(made))
        assert not run.spool.exists()
        assert not run.ring_dir.exists()
    assert not (run.store / "run.log").exists()
    text = (run.store / "report.txt").read_text()
    assert "the sampler was killed" in " ".join(text.split())
    told = json.loads((run.store / "report.json").read_text())
    assert told["time"]["steps"] >= made - 1
    assert told["coverage"]["gaps_s"] == 0


def test_wrapper_and_sampler_killed_and_the_report_asked_for_later(tmp_path: Path) -> None:
    with profiled_run(tmp_path, UNTIL_TOLD.format(folder=str(tmp_path))) as run:
        run.kill_wrapper()
        kill_the_sampler_and_go_on(run, tmp_path)
        made = end_the_command(tmp_path)
        assert report(run.store).returncode == 0
        assert [row["batch"] for row in steps_of(run.store)] == list(range(made))
        assert not run.ring_dir.exists()
        assert report(run.store).returncode == 0
        assert len(steps_of(run.store)) == made


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(spool, rings) after a kill: of two ranks, one with a ring written round."""
    folder = tmp_path_factory.mktemp("dead")
    spool, rings = make_spool(folder, None), folder / "rings"
    long, short = (RingMaker(rings, pid, 5, 16384, {"rank": pid}) for pid in (2, 3))
    train(long, 0, 50)
    train(short, 0, 50)
    DeadSampler(spool, rings, os.getuid()).read()
    train(short, 50, 120)
    for number in range(3):
        long.event(7, number, number + 1)
    train(long, 50, 17_000)
    return spool, rings


@pytest.mark.parametrize("how", ["steps", "writes"])
def test_a_reader_killed_at_every_moment_and_run_again(
    dead: tuple[Path, Path], tmp_path: Path, how: str
) -> None:
    script = ["-m", "tests.crash.kill_leftover", *map(str, dead), str(tmp_path), how]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, *script], capture_output=True, text=True, check=True, cwd=root
    )
    killed_at = done.stdout.split()
    assert len(killed_at) >= (4 if how == "writes" else 20)
    whole = sorted(batches(tmp_path / "warm" / "spool"))
    assert whole == sorted([*range(50), *range(17_003 - 16_384 - 3, 17_000), *range(120)])
    for number in killed_at:
        spool = tmp_path / number / "spool"
        take_over(spool)
        assert sorted(batches(spool)) == whole, f"killed at {how} {number}"
        assert meta_of(spool)["leftover"] == meta_of(tmp_path / "warm" / "spool")["leftover"]
        assert seal_spool(spool).failed == {}
        assert sorted(batches(spool)) == whole
        assert not list(spool.glob(".*"))
