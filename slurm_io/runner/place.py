"""Where a user-mode run keeps its things: store, spool, rings; made before the command starts."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_io.errors import StoreError, UsageError
from slurm_io.model import JobIdentity, SamplerSpec
from slurm_io.store.files import write_json_atomic

STORE_FILE = "job.json"
_LOCK_FILE = "runner.lock"


@dataclass(frozen=True)
class Place:
    """The folders of one run. `store` is the user's, `spool` and `ring_dir` are temporary.

    `lock_fd` holds the spool as long as this process lives (:mod:`slurm_io.runner.recover`).
    """

    job: JobIdentity
    node: str
    store: Path
    spool: Path
    ring_dir: Path
    argv: tuple[str, ...]
    lock_fd: int | None


def prepare(argv: tuple[str, ...], output: Path | None, spool_parent: Path | None) -> Place:
    """Make the folders and write ``job.json`` and ``sampler.json``; UsageError names the folder."""
    job = identity(os.environ)
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0] or "localhost"
    store = _make_store(output or Path(f"slurm-io-{job.job}"))
    spool, ring_dir = _make_spool(spool_parent), _make_ring_dir()
    try:
        place = Place(job, node, store, spool, ring_dir, argv, lock_fd=hold(spool))
        _fill(place)
    except (OSError, StoreError) as error:
        shutil.rmtree(spool, ignore_errors=True)
        shutil.rmtree(ring_dir, ignore_errors=True)
        raise UsageError(f"{error}: give another folder with -o or --spool") from error
    return place


def _fill(place: Place) -> None:
    """Write what sampler and recovery need to know."""
    spec = SamplerSpec(
        job=place.job,
        node=place.node,
        mode="user",
        spool=str(place.spool),
        ring_dir=str(place.ring_dir),
    )
    (place.spool / "sampler.json").write_text(json.dumps(spec.to_dict(), indent=1))
    write_job_file(place, exit_code=None)  # last: it leads others to the spool


def hold(spool: Path) -> int | None:
    """Lock a spool until the descriptor is closed, by the kernel at the latest; None when taken."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(spool / _LOCK_FILE, flags, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except OSError:  # a file system without locks
        return fd
    return fd


def spool_prefix() -> str:
    """How the name of every spool of this user begins."""
    return f"slurm-io-spool-{os.getuid()}-"


def ring_dir_prefix() -> str:
    """How the name of every ring folder of this user begins."""
    return f"slurm-io-{os.getuid()}-"


def identity(environment: Mapping[str, str]) -> JobIdentity:
    """Which job this is: Slurm's words where there are some, else a name made from the time."""
    job = environment.get("SLURM_JOB_ID", "")
    if not re.fullmatch(r"[0-9]{1,12}", job):
        job = time.strftime("%Y%m%dT%H%M%S")
    restart = environment.get("SLURM_RESTART_COUNT", "0")
    task = environment.get("SLURM_ARRAY_TASK_ID", "")
    gpus = environment.get("SLURM_GPUS_ON_NODE", "")
    return JobIdentity(
        cluster=environment.get("SLURM_CLUSTER_NAME") or "local",
        job=job,
        restart=int(restart) if restart.isdigit() else 0,
        user=_user_name(),
        uid=os.getuid(),
        name=environment.get("SLURM_JOB_NAME"),
        array_job=environment.get("SLURM_ARRAY_JOB_ID"),
        array_task=int(task) if task.isdigit() else None,
        partition=environment.get("SLURM_JOB_PARTITION"),
        account=environment.get("SLURM_JOB_ACCOUNT"),
        gpus_on_node=int(gpus) if gpus.isdigit() else None,
        work_dir=str(Path.cwd()),
    )


def write_job_file(place: Place, exit_code: int | None) -> None:
    """(Re)write the store's ``job.json``; `exit_code` None = still running."""
    facts = {
        "schema": 1,
        "job": place.job.to_dict(),
        "nodes_expected": [place.node],
        "spool": {place.node: str(place.spool)},
        "command": list(place.argv),
        "exit_code": exit_code,
    }
    write_json_atomic(place.store / STORE_FILE, facts, mode=0o666)  # less the user's umask


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container without a passwd entry
        return str(os.getuid())


def _make_store(store: Path) -> Path:
    if (store / STORE_FILE).exists():
        raise UsageError(f"{store} already holds a run: give another folder with -o")
    try:
        store.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make the store {store}: {error.strerror}; give another with -o"
        ) from error
    if not os.access(store, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write to the store {store}: give another folder with -o")
    return store.resolve()


def _make_spool(parent: Path | None) -> Path:
    """A folder of the user's own on a local disk, so that recording never adds to the job's I/O."""
    try:
        return Path(tempfile.mkdtemp(prefix=spool_prefix(), dir=parent))
    except OSError as error:
        raise UsageError(
            f"cannot make a spool folder: {error.strerror}; give one with --spool"
        ) from error


def _make_ring_dir() -> Path:
    """In memory, because the hook writes there on the training step's path."""
    shm = Path("/dev/shm")
    parent = shm if os.access(shm, os.W_OK | os.X_OK) else None
    return Path(tempfile.mkdtemp(prefix=ring_dir_prefix(), dir=parent))
