"""Whatever is wrong with our own installation, jobs run and nodes stay in service."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.labs.hooked_cluster import HookedCluster

pytestmark = [pytest.mark.cluster, pytest.mark.root]


def stand_in(cluster: HookedCluster, text: str) -> str:
    """An executable in the interpreter's place."""
    path = cluster.root / f"python{time.monotonic_ns()}"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def half_an_upgrade(cluster: HookedCluster) -> str:
    """The real interpreter, finding a package of ours that cannot be imported."""
    package = cluster.root / "broken" / "slurm_io"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("raise RuntimeError('half an upgrade')\n")
    return stand_in(cluster, f'shift; PYTHONPATH={package.parent} exec {sys.executable} "$@"')


def a_job_runs(cluster: HookedCluster, limit_s: float) -> None:
    began = time.monotonic()
    run = cluster.submit("echo ran")
    assert run.wait() == "COMPLETED"
    assert "ran" in run.output
    assert time.monotonic() - began < limit_s
    deadline = time.monotonic() + 15
    while set(cluster.node_states().values()) != {"idle"} and time.monotonic() < deadline:
        time.sleep(0.25)
    assert set(cluster.node_states().values()) == {"idle"}


def test_the_package_is_broken(cluster: HookedCluster) -> None:
    cluster.install_hooks(python=half_an_upgrade(cluster))
    a_job_runs(cluster, 20)


def test_the_interpreter_is_gone(cluster: HookedCluster) -> None:
    cluster.install_hooks(python="/nonexistent/python")
    a_job_runs(cluster, 20)


def test_the_interpreter_hangs(cluster: HookedCluster) -> None:
    cluster.install_hooks(python=stand_in(cluster, "sleep 300"))
    a_job_runs(cluster, 29)  # two limits of 4 s; slurmd's own PrologEpilogTimeout is 30 s


def test_a_child_that_holds_its_stdout_delays_nobody(cluster: HookedCluster) -> None:
    cluster.install_hooks(python=stand_in(cluster, "sleep 300 & exit 0"))
    a_job_runs(cluster, 20)


def test_the_configuration_is_broken(cluster: HookedCluster) -> None:
    cluster.config_path.write_text("spool_dri = 3")
    a_job_runs(cluster, 20)


def test_the_scripts_are_what_slurm_was_told(cluster: HookedCluster) -> None:
    shown = cluster.scontrol("show", "config")
    for name in ("Prolog", "Epilog", "TaskProlog"):
        assert any(
            line.split("=")[0].strip() == name and str(cluster.hooks) in line
            for line in shown.splitlines()
        )
    assert Path(cluster.hooks / "prolog.sh").exists()
