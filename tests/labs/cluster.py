"""A real Slurm cluster on one machine: munged, MariaDB, slurmdbd, slurmctld and N slurmd.

::

    with SlurmCluster(nodes=2, prolog=Path("/…/prolog.sh")) as cluster:
        job = cluster.sbatch("#!/bin/sh\\nsleep 1\\n", nodes=2)
        assert cluster.wait(job) == "COMPLETED"

Debian's slurmd is built for several daemons a host (``-N t1``). The nodes share /proc, the disk
and the host's name; they differ in SLURMD_NODENAME only. Needs root, because slurmd starts jobs as
their users. Jobs run as `cluster.user`, an ordinary account that every Debian has.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.labs import cluster_parts as parts
from tests.labs.cluster_conf import Ports, for_version, slurm_conf, slurmdbd_conf
from tests.labs.cluster_parts import ClusterError

FINAL_STATES = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
    | {"PREEMPTED", "TIMEOUT"}
)
START_TIMEOUT_S = 20.0


@dataclass
class SlurmCluster:
    """One cluster; a context manager. Every daemon it started has ended when it leaves.

    Args:
        nodes: how many slurmd, called t1, t2, …
        dbd: with slurmdbd and MariaDB (about 5 s more).
        prolog, epilog, task_prolog: absolute paths of hook scripts; None = no hook.
        extra: further lines for slurm.conf.
        user: account that jobs run as.
    """

    nodes: int = 4
    dbd: bool = True
    prolog: Path | None = None
    epilog: Path | None = None
    task_prolog: Path | None = None
    extra: str = ""
    user: str = "games"
    root: Path = field(init=False)
    env: dict[str, str] = field(init=False)

    def __enter__(self) -> Self:
        self.root = Path(tempfile.mkdtemp(prefix="sio-"))
        self.root.chmod(0o755)
        self.env = {"PATH": parts.SBIN_PATH, "LC_ALL": "C", "SLURM_CONF": str(self.conf_path)}
        self._pids: list[int] = []
        try:
            self._start()
        except BaseException as error:
            text = self.logs()
            self.stop()
            raise ClusterError(f"the test cluster did not start: {error}\n{text}") from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # -- what tests do with it ---------------------------------------------------------------

    @property
    def conf_path(self) -> Path:
        """The cluster's slurm.conf."""
        return self.root / "slurm.conf"

    @property
    def node_names(self) -> list[str]:
        """t1 … tN."""
        return [f"t{number}" for number in range(1, self.nodes + 1)]

    def work_dir(self, name: str) -> Path:
        """A fresh folder that belongs to the jobs' user."""
        path = self.root / "work" / name
        path.mkdir(parents=True)
        account = pwd.getpwnam(self.user)
        os.chown(path, account.pw_uid, account.pw_gid)
        return path

    def sbatch(
        self, script: str, *options: str, nodes: int = 1, work_dir: Path | None = None
    ) -> int:
        """Submit a script's text as the jobs' user; the job id."""
        folder = work_dir or self.work_dir(f"w{time.monotonic_ns()}")
        done = self.as_user(
            ["sbatch", "--parsable", f"--nodes={nodes}", f"--chdir={folder}", *options],
            text=script,
        )
        if done.returncode != 0:
            raise ClusterError(f"sbatch said {done.stderr.strip()}")
        return int(done.stdout.split(";")[0])

    def as_user(
        self, argv: Sequence[str], text: str = "", timeout_s: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """One Slurm command run as the jobs' user, `text` on its stdin."""
        account = pwd.getpwnam(self.user)
        return subprocess.run(
            [parts.program(argv[0]), *argv[1:]],
            env=self.env,
            cwd="/",
            input=text,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
        )

    @contextlib.contextmanager
    def acting_as(self, user: str) -> Iterator[None]:
        """Submit as another account for a while."""
        usual, self.user = self.user, user
        try:
            yield
        finally:
            self.user = usual

    def scontrol(self, *arguments: str) -> str:
        """Output of one scontrol command run as root; ClusterError when it fails."""
        done = parts.run(["scontrol", *arguments], self.env)
        if done.returncode != 0:
            raise ClusterError(f"scontrol {' '.join(arguments)}: {done.stderr or done.stdout}")
        return done.stdout

    def job(self, job_id: int) -> dict[str, str]:
        """``scontrol show job`` as key -> value."""
        words = self.scontrol("show", "job", "-o", str(job_id)).split(" ")
        return dict(word.split("=", 1) for word in words if "=" in word)

    def state(self, job_id: int) -> str:
        """The job's state now, e.g. RUNNING."""
        return self.job(job_id)["JobState"]

    def wait(self, job_id: int, *states: str, timeout_s: float = 90.0) -> str:
        """Wait for a final state, or for one of `states`; the state reached."""
        wanted = frozenset(states) or FINAL_STATES
        deadline = time.monotonic() + timeout_s
        while (state := self.state(job_id)) not in wanted:
            if time.monotonic() > deadline:
                raise ClusterError(f"job {job_id} is {state}, not {set(wanted)}\n{self.logs()}")
            time.sleep(0.25)
        return state

    def cancel(self, job_id: int) -> None:
        """scancel as the job's user."""
        self.as_user(["scancel", str(job_id)])

    def node_states(self) -> dict[str, str]:
        """Node -> state word of ``sinfo``, e.g. idle, alloc, drain, down (trailing * kept)."""
        done = parts.run(["sinfo", "-h", "-N", "-o", "%N %t"], self.env)
        return dict(line.split() for line in done.stdout.splitlines() if line.strip())

    def slurmd_pid(self, node: str) -> int:
        """Process id from the daemon's own pid file."""
        return int((self.root / f"slurmd-{node}.pid").read_text())

    def kill_slurmd(self, node: str) -> None:
        """kill -9 the daemon; the job's processes on that node live on."""
        os.kill(self.slurmd_pid(node), signal.SIGKILL)

    def kill_node(self, node: str) -> None:
        """As if the node lost power: slurmd, jobs and what our hooks started there are gone."""
        self.kill_slurmd(node)
        for pid in parts.processes_naming(str(self.root)):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
                environment = Path(f"/proc/{pid}/environ").read_bytes()
                named = f"SLURMD_NODENAME={node}\0".encode() in environment
                if named or words.rstrip(b"\0").endswith(f"/{node}".encode()):
                    os.kill(pid, signal.SIGKILL)

    def start_slurmd(self, node: str) -> None:
        """Start (or start again) one node's daemon."""
        done = parts.run(["slurmd", "-f", str(self.conf_path), "-N", node], self.env)
        if done.returncode != 0:
            raise ClusterError(f"slurmd {node}: {done.stderr}")

    def heal(self) -> None:
        """Restart dead slurmd and bring every node back to idle, for the next test."""
        for node in self.node_names:
            if not parts.is_running(self.slurmd_pid(node)):
                self.start_slurmd(node)
        self._await_idle(60.0)

    def logs(self) -> str:
        """The tail of every log, our hooks' last, for a failure's message."""
        paths = sorted((self.root / "log").glob("*"), key=lambda path: path.name == "hooks.log")
        return "\n".join(parts.tail(path) for path in paths)

    def stop(self) -> None:
        """End everything this cluster started and remove its folder."""
        pid_files = [*self.root.glob("slurmd-*.pid"), self.root / "slurmctld.pid"]
        for path in [*pid_files, self.root / "slurmdbd.pid", self.root / "munged.pid"]:
            with contextlib.suppress(OSError, ValueError):
                parts.stop(int(path.read_text()))
        for pid in [*self._pids, *parts.processes_naming(str(self.root))]:
            parts.stop(pid, grace_s=2.0)
        shutil.rmtree(self.root, ignore_errors=True)

    # -- start -------------------------------------------------------------------------------

    def _start(self) -> None:
        self._ports = Ports.pick(self.nodes)
        for folder in ("log", "state", "work", *(f"spool-{name}" for name in self.node_names)):
            (self.root / folder).mkdir(mode=0o755)
        database = self._start_database() if self.dbd else None
        self._start_munged()
        version = parts.slurm_version()
        self.conf_path.write_text(for_version(self._slurm_conf(), version))
        if version >= (24, 5):  # it would look for control groups that a container lacks
            (self.root / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        if database is not None:
            self._start_slurmdbd()
        self._start_slurmctld()
        for node in self.node_names:
            self.start_slurmd(node)
        self._await_idle(START_TIMEOUT_S)

    def _slurm_conf(self) -> str:
        return slurm_conf(
            self.root,
            self._ports,
            self.dbd,
            {"Prolog": self.prolog, "Epilog": self.epilog, "TaskProlog": self.task_prolog},
            self.extra,
        )

    def _start_munged(self) -> None:
        key = self.root / "munge.key"
        parts.write_munge_key(key)
        options = {
            "key-file": key,
            "socket": self.root / "munge.sock",
            "pid-file": self.root / "munged.pid",
            "log-file": self.root / "log" / "munged.log",
            "seed-file": self.root / "munge.seed",
        }
        argv = [
            "munged",
            "--num-threads=2",
            *(f"--{name}={path}" for name, path in options.items()),
        ]
        done = parts.run(argv, self.env)
        if done.returncode != 0:
            raise ClusterError(f"munged: {done.stderr}")
        parts.wait_until((self.root / "munge.sock").exists, START_TIMEOUT_S, "munged's socket")

    def _start_database(self) -> int:
        data, init = self.root / "mysql", self.root / "init.sql"
        common = ["--no-defaults", f"--datadir={data}", "--user=root"]
        # A server that starts removes what others have in its folder for temporary tables.
        env = {**self.env, "TMPDIR": os.fspath(self.root)}
        install = parts.run(
            [
                "mariadb-install-db",
                *common,
                "--skip-test-db",
                "--auth-root-authentication-method=normal",
            ],
            env,
            timeout_s=120.0,
        )
        if install.returncode != 0:
            raise ClusterError(f"mariadb-install-db: {install.stderr[-500:]}")
        init.write_text(
            "CREATE USER IF NOT EXISTS slurm@'127.0.0.1' IDENTIFIED BY 'lab';\n"
            "GRANT ALL ON slurm_acct.* TO slurm@'127.0.0.1';\n"
        )
        argv = [
            "mariadbd",
            *common,
            f"--socket={self.root}/mysql.sock",
            "--bind-address=127.0.0.1",
            f"--port={self._ports.database}",
            f"--pid-file={self.root}/mariadbd.pid",
            f"--init-file={init}",
            "--skip-name-resolve",
            "--innodb-buffer-pool-size=32M",
            "--innodb-flush-log-at-trx-commit=0",
        ]
        pid = parts.spawn(argv, env, self.root / "log" / "mariadbd.log")
        self._pids.append(pid)
        return pid

    def _start_slurmdbd(self) -> None:
        conf = self.root / "slurmdbd.conf"
        conf.touch(mode=0o600)
        conf.write_text(slurmdbd_conf(self.root, self._ports))
        ports = self._ports
        parts.wait_until(lambda: parts.is_listening(ports.database), START_TIMEOUT_S, "MariaDB")
        done = parts.run(["slurmdbd"], self.env)
        if done.returncode != 0:
            raise ClusterError(f"slurmdbd: {done.stderr}")
        parts.wait_until(lambda: parts.is_listening(ports.slurmdbd), START_TIMEOUT_S, "slurmdbd")
        added = parts.run(["sacctmgr", "-i", "add", "cluster", "lab"], self.env)
        if added.returncode != 0:
            raise ClusterError(f"sacctmgr add cluster: {added.stdout}{added.stderr}")

    def _start_slurmctld(self) -> None:
        done = parts.run(["slurmctld", "-f", str(self.conf_path)], self.env)
        if done.returncode != 0:
            raise ClusterError(f"slurmctld: {done.stderr}")
        parts.wait_until(
            lambda: "UP" in parts.run(["scontrol", "ping"], self.env).stdout,
            START_TIMEOUT_S,
            "slurmctld",
        )

    def _await_idle(self, timeout_s: float) -> None:
        def all_idle() -> bool:
            states = self.node_states()
            return len(states) == self.nodes and set(states.values()) == {"idle"}

        parts.wait_until(all_idle, timeout_s, f"nodes idle ({self.node_states()})", step_s=0.2)
