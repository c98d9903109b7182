"""Where a user-mode run keeps its things: store, spool, rings; made before the command starts."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slurm_io.errors import StoreError, UsageError
from slurm_io.model import LOCAL_CLUSTER, STACKS_SHARE, JobIdentity, SamplerSpec
from slurm_io.runner.job_store import (
    STORE_FILE,
    candidates,
    claim,
    make_folder,
    node_file,
    write_own,
)
from slurm_io.runner.meeting import Meeting, meet
from slurm_io.runner.step import Step, read_step
from slurm_io.slurm.gpu_words import gpus_of_user
from slurm_io.store.files import read_json_if_there

LOCK_FILE = "runner.lock"


@dataclass(frozen=True)
class Place:
    """The folders of one run. `store` is the user's, `spool` and `ring_dir` are temporary.

    `lock_fd` holds the spool as long as this process lives (:mod:`slurm_io.runner.recover`).
    `together_with` names the nodes of a store that others than a step's tasks share.
    """

    job: JobIdentity
    node: str
    store: Path
    spool: Path
    ring_dir: Path
    argv: tuple[str, ...]
    lock_fd: int | None
    step: Step | None = None
    together_with: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that write into the store."""
        if self.together_with:
            return self.together_with
        return self.step.nodes if self.step is not None and self.step.is_shared else (self.node,)


def node_name(environment: Mapping[str, str]) -> str:
    """Slurm's name of this node, else the host's."""
    return environment.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0] or "localhost"


def meet_the_step(step: Step | None) -> Meeting | None:
    """Who leads among the tasks of this node; None = this process is on its own."""
    if step is None or not step.is_shared:
        return None
    return meet(
        step, dict.fromkeys((_memory_folder(), Path(tempfile.gettempdir()))), ring_dir_prefix()
    )


def prepare(
    argv: tuple[str, ...],
    output: Path | None,
    spool_parent: Path | None,
    meeting: Meeting | None = None,
    stacks: bool = False,
    budget_share: float = SamplerSpec.budget_share,
) -> Place:
    """Make the folders and write ``job.json`` and ``sampler.json``; UsageError names the folder.

    The rings go into the folder of the `meeting` that this process leads. `stacks`: record them.
    `budget_share`: of one core, for the sampler.
    """
    job, node = identity(os.environ), node_name(os.environ)
    step = read_step(os.environ, node)
    is_cut_off = meeting is None and step is not None and step.is_shared
    stores = candidates(output, job, step, numbered=is_cut_off)
    spool = make_spool(spool_parent)
    ring_dir = make_ring_dir() if meeting is None else meeting.folder
    try:
        draft = Place(job, node, spool, spool, ring_dir, argv, hold(spool), step)
        _write_spec(draft, stacks, budget_share)
        return settle(draft, stores)
    except (OSError, StoreError, UsageError) as error:
        shutil.rmtree(spool, ignore_errors=True)
        if meeting is None:
            shutil.rmtree(ring_dir, ignore_errors=True)
        if isinstance(error, UsageError):
            raise
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{reason}: give another folder with -o or --spool") from error


def settle(draft: Place, stores: Iterable[Path]) -> Place:
    """Take the first free store; last of all, for ``job.json`` leads others to the spool."""
    tried = None
    for tried in stores:
        place = replace(draft, store=make_folder(tried))
        if claim(place.store, _facts(place, exit_code=None), place.node):
            return place
    raise UsageError(f"{tried} already holds a run: give another folder with -o")


def _write_spec(place: Place, stacks: bool, budget_share: float) -> None:
    """Tell the sampler."""
    spec = SamplerSpec(
        job=place.job,
        node=place.node,
        mode="user",
        stacks_share=STACKS_SHARE if stacks else 0.0,
        spool=str(place.spool),
        ring_dir=str(place.ring_dir),
        budget_share=budget_share,
        gpus=gpus_of_user(os.environ),
    )
    (place.spool / "sampler.json").write_text(json.dumps(spec.to_dict(), indent=1))


def hold(spool: Path) -> int | None:
    """Lock a spool until the descriptor is closed, by the kernel at the latest; None when taken."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(spool / LOCK_FILE, flags, 0o600)
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
        cluster=environment.get("SLURM_CLUSTER_NAME") or LOCAL_CLUSTER,
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


def give_back(place: Place) -> None:
    """Leave a store in which nothing was recorded as if it had never been taken."""
    for name in (node_file(place.node), STORE_FILE):
        with contextlib.suppress(OSError):
            told = read_json_if_there(place.store / name) or {}
            if told.get("spool") == {place.node: str(place.spool)}:
                (place.store / name).unlink()
    with contextlib.suppress(OSError):
        place.store.rmdir()


def write_job_file(place: Place, exit_code: int | None) -> None:
    """Rewrite the store's ``job.json``, or this node's; `exit_code` None = still running."""
    write_own(place.store, _facts(place, exit_code), place.node)


def _facts(place: Place, exit_code: int | None) -> dict[str, Any]:
    return {
        "schema": 1,
        "job": place.job.to_dict(),
        "step": None if place.step is None else place.step.number,
        "nodes_expected": list(place.nodes),
        "spool": {place.node: str(place.spool)},
        "command": list(place.argv),
        "exit_code": exit_code,
    }


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container without a passwd entry
        return str(os.getuid())


def make_spool(parent: Path | None) -> Path:
    """A folder of the user's own on a local disk, so that recording never adds to the job's I/O."""
    try:
        return Path(tempfile.mkdtemp(prefix=spool_prefix(), dir=parent))
    except OSError as error:
        raise UsageError(
            f"cannot make a spool folder: {error.strerror}; give one with --spool"
        ) from error


def make_ring_dir() -> Path:
    """A folder of the user's own for rings."""
    return Path(tempfile.mkdtemp(prefix=ring_dir_prefix(), dir=_memory_folder()))


def _memory_folder() -> Path:
    """In memory, because the hook writes there on the training step's path."""
    shm = Path("/dev/shm")
    return shm if os.access(shm, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
