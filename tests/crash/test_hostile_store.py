"""The store of a run lies where others can write, or goes away: nothing else is touched."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from slurm_io.model import JobIdentity
from slurm_io.runner.child import CommandEnd
from slurm_io.runner.finish import finish
from slurm_io.runner.place import Place
from tests.crash.killed_run import SLURM_IO


def run(store: Path, *command: str) -> subprocess.CompletedProcess[str]:
    argv = [*SLURM_IO, "run", "--no-report", "-o", str(store), "--", *command]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("name", ["job.json", "job.tmp", ".job.json.tmp", "run.log"])
def test_links_planted_in_the_store_lead_nowhere(tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    store = tmp_path / "store"
    store.mkdir()
    (store / name).symlink_to(victim)
    script = f"mkdir {store}/node=x; chmod 0 {store}/node=x; exit 5"
    assert run(store, "sh", "-c", script).returncode in (2, 5)
    assert victim.read_text() == "kept"


def test_a_store_removed_meanwhile_costs_the_report_alone(tmp_path: Path) -> None:
    store = tmp_path / "store"
    done = run(store, "sh", "-c", f"rm -rf {store}; exit 7")
    assert (done.returncode, done.stderr) == (7, "")


def test_a_run_log_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    job = JobIdentity("local", "1", 0, "u", os.getuid())
    gone = tmp_path / "gone"
    place = Place(job, "n", tmp_path / "store", gone, gone, ("true",), lock_fd=None)
    place.store.mkdir()
    finish(place, CommandEnd(0), report=False)
    assert "store.seal ended with" in (place.store / "run.log").read_text()
    (tmp_path / "victim").write_text("kept")
    (place.store / "run.log").unlink()
    (place.store / "run.log").symlink_to(tmp_path / "victim")
    finish(place, CommandEnd(0), report=False)
    assert (tmp_path / "victim").read_text() == "kept"
