"""A test cluster with our hooks installed as a site would install them."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slurm_io.config import load
from slurm_io.prolog.entry_scripts import Filling, install
from slurm_io.slurm.node_state import parse_nodes
from tests.labs.cluster import ClusterError, SlurmCluster
from tests.labs.cluster_parts import processes_naming, wait_until
from tests.labs.user_python import UserPython, find_user_python

# No kernel log: the machine that runs the tests may have had faults of its own.
CONFIG = """\
runtime_dir = "{root}/run"
spool_dir = "{root}/spool"
state_dir = "{root}/lib"
log_file = "{root}/log/hooks.log"
[sampler]
idle_exit_s = 30
[prolog]
systemd = "never"
[epilog]
grace_s = 8
time_limit_s = 120
sampler_stop_s = 5
[check.kernel_log]
enabled = false
"""


class HookedCluster(SlurmCluster):
    """Prolog, Epilog and TaskProlog are those of `slurm-io install`."""

    @property
    def hooks(self) -> Path:
        """The folder of the three entry scripts."""
        return self.root / "hooks"

    @property
    def config_path(self) -> Path:
        """The hooks' configuration."""
        return self.root / "config.toml"

    def install_hooks(self, python: str | None = None, extra_config: str = "") -> None:
        """(Re)install the scripts, for another interpreter or with more configuration if given."""
        self.config_path.write_text(CONFIG.format(root=self.root) + extra_config)
        filling = Filling.of(load(str(self.config_path)), str(self.config_path))
        if python is not None:
            filling = replace(filling, python=python)
        install(str(self.hooks), filling)

    @property
    def hooks_log(self) -> str:
        """What prolog, epilog and finisher wrote."""
        path = self.root / "log" / "hooks.log"
        return path.read_text() if path.exists() else ""

    def check_by_hand(self, *arguments: str) -> tuple[int, str]:
        """`slurm-io check` as root on this machine; exit code and output."""
        done = subprocess.run(
            [sys.executable, "-m", "slurm_io", "check", "--config", self.config_path, *arguments],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def drains(self) -> dict[str, str]:
        """Node -> reason, of the nodes that are drained now."""
        nodes = parse_nodes(self.scontrol("-o", "show", "node"))
        return {node.name: node.reason for node in nodes if "DRAIN" in node.flags}

    def deciding(self) -> list[int]:
        """Detached processes that decide about a node's drain, with their settle time."""
        found = []
        for pid in processes_naming(str(self.config_path)):
            with contextlib.suppress(OSError):
                if b"slurm_io.prolog.drain" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    def forget_faults(self) -> None:
        """Give back drained nodes, take marks back, forget what nodes remember."""
        # Who still decides about a drain would write into what is forgotten here.
        wait_until(lambda: not self.deciding(), 20, "no drain being decided")
        for node in parse_nodes(self.scontrol("-o", "show", "node")):
            if "DRAIN" in node.flags:
                self.scontrol("update", f"NodeName={node.name}", "State=RESUME")
            if node.comment:
                self.scontrol("update", f"NodeName={node.name}", "Comment=")
        shutil.rmtree(self.root / "lib", ignore_errors=True)

    def submit(self, script: str, *options: str, nodes: int = 1) -> Run:
        """Submit a job whose script may use $PYTHON; its work folder is fresh."""
        folder = self.work_dir(f"job{time.monotonic_ns()}")
        text = f"#!/bin/sh\n{self.user_python().shell_lines()}{script}\n"
        return Run(self, self.sbatch(text, *options, nodes=nodes, work_dir=folder), folder)

    def user_python(self, module: str = "json") -> UserPython:
        """The interpreter that jobs use."""
        found = find_user_python(self.user, module)
        if found is None:
            raise ClusterError(f"{self.user} can start no Python that imports {module}")
        return found

    def _start(self) -> None:
        (self.root / "run").mkdir()
        self.install_hooks()
        self.prolog, self.epilog = self.hooks / "prolog.sh", self.hooks / "epilog.sh"
        self.task_prolog = self.hooks / "task_prolog.sh"
        super()._start()


@dataclass(frozen=True)
class Run:
    """One submitted job and what it leaves behind."""

    cluster: HookedCluster
    job: int
    folder: Path

    def wait(self, *states: str, timeout_s: float = 90.0) -> str:
        """The final state (or the first of `states`)."""
        return self.cluster.wait(self.job, *states, timeout_s=timeout_s)

    @property
    def output(self) -> str:
        """The job's slurm-<id>.out."""
        return (self.folder / f"slurm-{self.job}.out").read_text()

    def store(self, restart: int = 0) -> Path:
        """The user's store."""
        return self.folder / (f"slurm-io-{self.job}" + (f".{restart}" if restart else ""))

    def report_text(self, restart: int = 0, timeout_s: float = 60.0) -> str:
        """The report beside the job's output, once it is there."""
        path = self.folder / f"{self.store(restart).name}.txt"
        deadline = time.monotonic() + timeout_s
        while not path.exists():
            if time.monotonic() > deadline:
                found = sorted(each.name for each in self.folder.rglob("*"))
                raise ClusterError(f"no {path.name} in {found}\n{self.cluster.logs()}")
            time.sleep(0.25)
        return path.read_text()

    def report(self, restart: int = 0, timeout_s: float = 60.0) -> dict[str, Any]:
        """report.json of the store, once the text is there."""
        self.report_text(restart, timeout_s)
        content: dict[str, Any] = json.loads((self.store(restart) / "report.json").read_text())
        return content
