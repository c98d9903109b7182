"""A stand-in for slurmd around one hook: its folders, its environment, its way of calling.

The hook itself, its scripts and the sampler it starts are the real ones.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.labs.cluster_parts import processes_naming, stop

# No kernel log: the machine that runs the tests may have had faults of its own.
CONFIG = """\
runtime_dir = "{root}/run"
spool_dir = "{root}/spool"
state_dir = "{root}/lib"
log_file = "{root}/hooks.log"
[check.kernel_log]
enabled = false
[prolog]
systemd = "never"
[sampler]
idle_exit_s = 20
{extra}
"""


@dataclass(frozen=True)
class SlurmdRoom:
    """Everything of one test lies below `root`; `uid` owns the job."""

    root: Path
    uid: int = 5
    gid: int = 60

    def write_config(self, extra: str = "") -> Path:
        """The configuration that hooks of this room read."""
        path = self.root / "config.toml"
        path.write_text(CONFIG.format(root=self.root, extra=extra))
        return path

    def environment(self, **changes: str) -> dict[str, str]:
        """As slurmd 22.05 sets it for Prolog and Epilog."""
        work_dir = self.root / "work"
        if not os.path.lexists(work_dir):
            work_dir.mkdir()
            os.chown(work_dir, self.uid, self.gid)
        return {
            "SLURM_CLUSTER_NAME": "lab",
            "SLURMD_NODENAME": "t1",
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_UID": str(self.uid),
            "SLURM_JOB_GID": str(self.gid),
            "SLURM_JOB_USER": "games",
            "SLURM_JOB_PARTITION": "main",
            "SLURM_JOB_WORK_DIR": str(work_dir),
            "SLURM_JOB_RESTART_COUNT": "0",
            "SLURM_NODELIST": "t1",
            **changes,
        }

    def hook(self, module: str, pass_fds: tuple[int, ...] = (), **changes: str) -> int:
        """Run one hook as its entry script would; its exit code. Waits until its pipes are free."""
        argv = [sys.executable, "-I", "-m", module, "--config", str(self.root / "config.toml")]
        done = subprocess.run(
            argv,
            env=self.environment(**changes),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            pass_fds=pass_fds,
            timeout=30,
            check=False,
        )
        assert done.stdout + done.stderr == b"", done.stderr.decode()
        return done.returncode

    def prolog(self, **changes: str) -> int:
        """The prolog."""
        return self.hook("slurm_io.prolog.hook", **changes)

    def epilog(self, **changes: str) -> int:
        """The epilog; what it starts goes on."""
        return self.hook("slurm_io.epilog.hook", **changes)

    def runtime(self, job: str = "7") -> Path:
        """The job's runtime folder on t1."""
        return self.root / "run" / "t1" / job

    def spool(self, key: str = "7.0") -> Path:
        """The job's spool folder on t1."""
        return self.root / "spool" / "lab" / key / "t1"

    def log(self) -> str:
        """What the hooks wrote."""
        path = self.root / "hooks.log"
        return path.read_text() if path.exists() else ""

    def sampler_pid(self, key: str = "7.0") -> int:
        """The process that the prolog started."""
        pid: int = json.loads((self.spool(key) / "started.json").read_text())["pid"]
        return pid

    def wait_for_sampler(self, key: str = "7.0") -> int:
        """The sampler's pid once it is at work and handles signals."""
        path, deadline = self.spool(key) / "sampler.pid", time.monotonic() + 30
        while not path.exists():
            assert time.monotonic() < deadline, (self.spool(key) / "sampler.log").read_text()
            time.sleep(0.05)
        pid: int = json.loads(path.read_text())["pid"]
        return pid

    def wait_for_log(self, text: str, timeout_s: float = 60.0) -> str:
        """The log once it holds `text`."""
        deadline = time.monotonic() + timeout_s
        while text not in self.log():
            assert time.monotonic() < deadline, f"no {text!r} in the log:\n{self.log()}"
            time.sleep(0.1)
        return self.log()

    def clean_up(self) -> None:
        """End whatever the hooks left running."""
        for pid in processes_naming(str(self.root)):
            with contextlib.suppress(OSError):
                stop(pid, grace_s=2.0)


@contextlib.contextmanager
def private_room() -> Iterator[SlurmdRoom]:
    """A room in root-owned folders of its own; nothing is left running. Skips unless root."""
    if os.geteuid() != 0:
        pytest.skip("slurmd runs hooks as root, and they hand folders to users")
    # Not tmp_path: pytest closes its parent to other users, and the job's user passes through.
    folder = Path(tempfile.mkdtemp(prefix="sio-room-"))
    folder.chmod(0o755)
    made = SlurmdRoom(folder)
    made.write_config()
    try:
        yield made
    finally:
        made.clean_up()
        shutil.rmtree(folder, ignore_errors=True)
