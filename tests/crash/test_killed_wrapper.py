"""kill -9 of ``slurm-io run``: the command goes on, its sampler ends with it, the report comes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_io.errors import StoreError
from slurm_io.runner.place import spool_prefix
from slurm_io.runner.recover import recover
from tests.crash.killed_run import let_it_record, profiled_run, report
from tests.crash.stores import report_of, said_missing, steps_of
from tests.crash.watched_job import wait_until


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(store, spool) of a run whose wrapper was killed and whose command has ended since."""
    folder = tmp_path_factory.mktemp("dead")
    with profiled_run(folder) as run:
        let_it_record()
        run.kill_wrapper()
        run.end_command()
        shutil.rmtree(run.ring_dir)
    return run.store, run.spool


@pytest.fixture
def copy(dead: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """A copy of it that a test may spoil."""
    from tests.crash.kill_recovery import copy_of

    store = copy_of(*dead, tmp_path / "copy")
    return store, tmp_path / "copy" / f"{spool_prefix()}copy"


def test_the_command_goes_on_and_the_report_still_comes(tmp_path: Path) -> None:
    with profiled_run(tmp_path) as run:
        let_it_record()
        live = report(run.store)
        assert (live.returncode, live.stdout) == (3, "")
        assert "this run still goes on" in live.stderr
        run.kill_wrapper()
        os.kill(run.command_pid, 0)
        early = report(run.store)
        assert early.returncode == 3
        assert f"the command still runs, watched by process {run.sampler_pid}" in early.stderr
        assert early.stderr.count("\n") == 1
        run.end_command()
        meta = json.loads((run.spool / "meta.json").read_text())
        assert (meta["clean_end"], meta["end_reason"]) == (True, "job ended")
        done = report(run.store, "-f", "json")
        assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["coverage"]["ranks_seen"] == 1
    assert len(steps_of(run.store)) > 100
    assert not run.spool.exists()
    assert not run.ring_dir.exists()
    assert json.loads((run.store / "job.json").read_text())["exit_code"] is None
    marker = json.loads(next(run.store.glob("DONE.*")).read_text())
    assert (marker["clean"], marker["missing"]) == (False, ["slurm-io run was killed"])
    assert report(run.store).returncode == 0, "and a second time, from the store alone"


def test_wrapper_and_sampler_killed_together(tmp_path: Path) -> None:
    with profiled_run(tmp_path) as run:
        let_it_record()
        run.kill_wrapper()
        os.kill(run.sampler_pid, signal.SIGKILL)
        os.kill(run.command_pid, 0)
        wait_until(lambda: not run.sampler_lives())
        done = report(run.store, "-f", "json")
        assert (done.returncode, done.stderr) == (0, "")
    assert "the sampler was killed" in done.stdout
    assert len(steps_of(run.store)) > 50


def recover_killed_everywhere(dead: tuple[Path, Path], tmp_path: Path, stride: int) -> None:
    store, spool = dead
    script = ["-m", "tests.crash.kill_recovery"]
    command = [sys.executable, *script, str(store), str(spool), str(tmp_path), str(stride)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    killed_at = done.stdout.split()
    assert len(killed_at) * stride > 60, "the whole chain has more steps than that"
    whole = steps_of(tmp_path / "warm" / "store")
    assert len(whole) > 100
    for step in killed_at:
        copy = tmp_path / step / "store"
        recover(copy)
        assert steps_of(copy) == whole, f"killed at step {step}"
        assert {p.name for p in copy.iterdir()} == {
            p.name for p in (tmp_path / "warm" / "store").iterdir()
        }, f"killed at step {step}"
        assert not (tmp_path / step / f"{spool_prefix()}copy").exists()
    report_of(tmp_path / killed_at[-1] / "store")


def test_recovery_killed_here_and_there(dead: tuple[Path, Path], tmp_path: Path) -> None:
    recover_killed_everywhere(dead, tmp_path, stride=9)


@pytest.mark.long
def test_recovery_killed_at_every_step(dead: tuple[Path, Path], tmp_path: Path) -> None:
    recover_killed_everywhere(dead, tmp_path, stride=1)


def test_a_report_of_a_whole_store_touches_nothing(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text('{"schema": 1}')
    assert recover(tmp_path) == []
    assert recover(tmp_path / "absent") == []


def rename_spool(store: Path, target: Path) -> None:
    """What a store from a stranger might say."""
    told = json.loads((store / "job.json").read_text())
    told["spool"] = {node: str(target) for node in told["spool"]}
    (store / "job.json").write_text(json.dumps(told))


def test_a_store_that_names_some_other_folder_gets_nothing(copy: tuple[Path, Path]) -> None:
    store, spool = copy
    mine = spool.with_name("thesis")
    shutil.copytree(spool, mine)
    rename_spool(store, mine)
    assert recover(store) == []
    assert sorted(p.name for p in mine.iterdir()) == sorted(p.name for p in spool.iterdir())


def test_a_store_that_names_the_spool_of_another_run_gets_nothing(copy: tuple[Path, Path]) -> None:
    store, spool = copy
    told = json.loads((store / "job.json").read_text())
    told["job"]["job"] = "1234"
    (store / "job.json").write_text(json.dumps(told))
    assert recover(store) == []
    assert (spool / "meta.json").exists()


def test_a_link_in_the_spools_place_is_not_followed(copy: tuple[Path, Path]) -> None:
    store, spool = copy
    spool.rename(spool.with_name("elsewhere"))
    spool.symlink_to(spool.with_name("elsewhere"))
    assert recover(store) == []
    assert (spool / "meta.json").exists()


@pytest.mark.root
@pytest.mark.parametrize("whose", ["store", "spool"])
def test_what_belongs_to_another_user_is_left_alone(copy: tuple[Path, Path], whose: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give folders away")
    store, spool = copy
    os.chown(store if whose == "store" else spool, 33, 33)
    assert recover(store) == []
    assert (spool / "meta.json").exists()


def test_only_rings_are_removed_from_the_folder_the_spool_names(copy: tuple[Path, Path]) -> None:
    store, spool = copy
    precious = spool.with_name("slurm-io-precious")
    precious.mkdir()
    (precious / "ring-of-power").write_text("kept")
    spec = json.loads((spool / "sampler.json").read_text())
    (spool / "sampler.json").write_text(json.dumps({**spec, "ring_dir": str(precious)}))
    assert recover(store) != []
    assert (precious / "ring-of-power").exists()


def test_two_recoveries_do_not_meet(copy: tuple[Path, Path]) -> None:
    from slurm_io.runner.place import hold

    store, spool = copy
    held = hold(spool)
    assert held is not None
    with pytest.raises(StoreError, match="still goes on"):
        recover(store)
    os.close(held)
    assert recover(store) != []
    assert "did not end cleanly" not in said_missing(report_of(store))
