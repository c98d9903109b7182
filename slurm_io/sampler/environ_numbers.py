"""The rank number that a process's environment names, and how far it is to be trusted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_BY_LAUNCHER = (b"RANK", b"OMPI_COMM_WORLD_RANK", b"PMI_RANK")
_BY_SLURM = b"SLURM_PROCID"
_LOCAL = (b"LOCAL_RANK", b"OMPI_COMM_WORLD_LOCAL_RANK", b"MPI_LOCALRANKID", b"SLURM_LOCALID")
_WORLD = (b"WORLD_SIZE", b"OMPI_COMM_WORLD_SIZE", b"PMI_SIZE", b"SLURM_NTASKS")

_OF_THE_JOB = (b"SLURM_JOB_ID", b"SLURM_STEP_ID", b"SLURMD_NODENAME", b"SLURM_IO_RING_DIR")
_NAMES = (*_BY_LAUNCHER, _BY_SLURM, *_LOCAL, *_WORLD, *_OF_THE_JOB)
_WANTED = re.compile(rb"\0(%s)=([^\0]*)" % b"|".join(_NAMES))

LAUNCHER, STEP, BATCH = 3, 2, 1
"""How far a number is to be trusted: a launcher's own, a task's, a batch script's."""

NUMBERED_BY = {LAUNCHER: "launcher", STEP: "task", BATCH: "batch script", 0: None}
"""As meta.json calls them."""


@dataclass(frozen=True, slots=True)
class Told:
    """What one process's environment says. `trust` 0: no number."""

    trust: int = 0
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None


def words_in(environ: bytes) -> dict[bytes, bytes]:
    """What anybody here asks for, out of /proc/PID/environ. The rest may be a million entries,
    whose owner would have us spend 100 MiB on them."""
    return dict(_WANTED.findall(b"\0" + environ))


def told_by(environ: Mapping[bytes, bytes]) -> Told:
    """The rank an environment names; numbers that are none count as absent."""
    local, world = _first(environ, _LOCAL), _first(environ, _WORLD)
    rank = _first(environ, _BY_LAUNCHER)
    if rank is not None:
        return Told(LAUNCHER, rank, local, world)
    rank = _number(environ.get(_BY_SLURM))
    if rank is None:
        return Told()
    return Told(STEP if b"SLURM_STEP_ID" in environ else BATCH, rank, local, world)


def _first(environ: Mapping[bytes, bytes], names: Iterable[bytes]) -> int | None:
    return next((n for name in names if (n := _number(environ.get(name))) is not None), None)


def _number(text: bytes | None) -> int | None:
    return int(text) if text is not None and len(text) < 8 and text.isdigit() else None
