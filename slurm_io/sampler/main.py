"""Starts a sampler in a spool folder and keeps it to one per folder."""

from __future__ import annotations

import functools
import os
import random
import resource
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from slurm_io.errors import HostError, SlurmIoError, StoreError
from slurm_io.host.pidstat import parse_stat
from slurm_io.host.read import read_bytes
from slurm_io.model import SamplerSpec
from slurm_io.sampler.lifetime import Lifetime, ask_scontrol
from slurm_io.sampler.loop import Loop
from slurm_io.sampler.relay import Relay
from slurm_io.sampler.session import Session
from slurm_io.sampler.stopping import StopSignal
from slurm_io.store.files import read_json, read_json_if_there, write_json_atomic
from slurm_io.store.sample_child import samples_from_child
from slurm_io.store.schema import TABLES
from slurm_io.store.spool import SpoolWriter

_MOST_DESCRIPTORS = 65536


def run(spool: Path, root_pid: int | None = None) -> int:
    """Sample until the job ends or SIGTERM comes; the exit code.

    Args:
        spool: folder that holds ``sampler.json`` and takes everything that is written.
        root_pid: the user's command, when only the caller knows it; replaces the one in the file.
    """
    stop = StopSignal()
    stop.install()
    os.umask(0o077)
    try:
        spec = read_spec(spool, root_pid)
        claim(spool)
        sample(spec, stop)
    except SlurmIoError as error:
        print(f"slurm_io.sampler: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def sample(spec: SamplerSpec, stop: StopSignal) -> str:
    """The whole life of one sampler; why it ended."""
    raise_descriptor_limit()
    if spec.mode == "slurm":
        be_killed_before_jobs()
    sink = SpoolWriter(
        Path(spec.spool),
        TABLES.values(),
        # On the last tick within flush_s, also when it wakes a little early.
        flush_s=max(0.0, spec.flush_s - spec.interval_s / 2),
        rotate_bytes=spec.rotate_bytes,
        rotate_s=spec.rotate_s,
        max_bytes=spec.spool_max_bytes,
        samples=samples_from_child(TABLES.values()),
    )
    # The clock of all rows: one offset for the whole life, so that no step of UTC tears a series.
    offset_ns = time.time_ns() - time.monotonic_ns()
    session = Session(spec, sink, time.monotonic_ns(), offset_ns)
    chance = random.Random()
    lifetime = Lifetime(
        spec,
        time.monotonic(),
        lambda: ask_scontrol(spec.job.job, spec.job.restart),
        chance.random,
    )

    @functools.cache
    def opened() -> Loop:
        session.open()
        return Loop(
            session,
            spec.interval_s,
            spec.waits_hz,
            time.monotonic_ns,
            stop.wait,
            lifetime.end_reason,
            chance.random,
        )

    # All in one thread, unless it has to be left behind: helpers end with the thread that started
    # them.
    relay = Relay(Path(spec.proc_root), session.discovery.leave_out, session.discovery.take_back)
    return relay.run(lambda: opened().run())


def read_spec(spool: Path, root_pid: int | None) -> SamplerSpec:
    """``sampler.json``; StoreError names what is wrong with it. `spool` wins over its own word."""
    path = spool / "sampler.json"
    try:
        spec = SamplerSpec.from_dict(read_json(path))
    except (KeyError, TypeError) as error:
        raise StoreError(f"{path} is no sampler specification: {error}") from error
    if root_pid is not None:
        spec = replace(spec, root_pid=root_pid)
    return replace(spec, spool=str(spool))


def claim(spool: Path) -> None:
    """Write ``sampler.pid``; StoreError when another sampler lives in this folder."""
    path = spool / "sampler.pid"
    other = _other_sampler(path)
    if other is not None:
        raise StoreError(f"{spool} is being written by process {other}: stop that sampler first")
    write_json_atomic(path, {"pid": os.getpid(), "starttime": _starttime(os.getpid())})


def _other_sampler(path: Path) -> int | None:
    """Pid of a living sampler that claims the folder; a damaged claim is none."""
    try:
        claimed = read_json_if_there(path) or {}
    except StoreError:
        return None
    pid, starttime = claimed.get("pid"), claimed.get("starttime")
    if not isinstance(pid, int) or not isinstance(starttime, int) or pid == os.getpid():
        return None
    return pid if _starttime(pid) == starttime else None


def _starttime(pid: int) -> int | None:
    try:
        stat = parse_stat(read_bytes(f"/proc/{pid}/stat"))
    except HostError:
        return None
    return stat.starttime if stat is not None and stat.state not in "ZX" else None


def be_killed_before_jobs() -> None:
    """When memory runs out: slurmd may have had the kernel spare all that it starts (-1000), and no
    job is to die in place of what watches it. What was written until then is delivered all the
    same."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")


def raise_descriptor_limit() -> None:
    """Soft limit of open files up to the hard one: files of /proc are kept open."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, _MOST_DESCRIPTORS) if hard >= 0 else _MOST_DESCRIPTORS
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
