"""One look at a job's processes on this node before a sampler starts: who they are, which of them
are ranks, and whether another recording of ours takes their rings already."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_io import config
from slurm_io.collectors.base import Member
from slurm_io.errors import ConfigError
from slurm_io.model import SamplerSpec
from slurm_io.runner.attach.target import environ_of
from slurm_io.sampler.discovery import Discovery
from slurm_io.sampler.relay import Relay

RING_DIR = "SLURM_IO_RING_DIR"
_POLL_S = 0.25
_MOST_ASKED = 256


@dataclass(frozen=True)
class Survey:
    """`ranks` are told by environment. `ring_dir` is where the processes' hooks write, None without
    a hook; `environ` is one rank's, or one process's where there is no rank."""

    members: Sequence[Member]
    ranks: Sequence[Member]
    ring_dir: str | None
    environ: Mapping[str, str]


def survey(spec: SamplerSpec, patience_s: float) -> Survey:
    """Look until a process is found, `patience_s` at most (Slurm may have to be asked)."""
    discovery = Discovery(spec)
    until_s = time.monotonic() + patience_s
    relay = Relay(Path(spec.proc_root), discovery.leave_out, discovery.take_back)
    try:
        members, ranks, environs = relay.run(lambda: _look(discovery, until_s))
    finally:
        discovery.close()
    return Survey(members, ranks, ring_dir_named_by(environs, spec.job.uid), (environs or [{}])[0])


def _look(
    discovery: Discovery, until_s: float
) -> tuple[Sequence[Member], Sequence[Member], list[Mapping[str, str]]]:
    """Members, ranks among them, environments. Begun again when it hung at a process."""
    while True:
        discovery.refresh({})
        members = discovery.members()
        if members or time.monotonic() >= until_s:
            break
        time.sleep(_POLL_S)
    ranks = [member for member in members if member.role == "rank"]
    environs = [environ_of(member.pid) for member in (ranks or members)[:_MOST_ASKED]]
    return members, ranks, [environ for environ in environs if environ]


def ring_dir_named_by(environs: Sequence[Mapping[str, str]], uid: int) -> str | None:
    """The ring folder that most name and that is there; None where the hook is off.

    The name is the user's word. Root looks only where prolog and wrapper put rings, because a
    folder elsewhere might lie on a mount that hangs.
    """
    named = Counter(
        environ[RING_DIR]
        for environ in environs
        if environ.get(RING_DIR) and environ.get("SLURM_IO_HOOK") != "0"
    )
    return next(
        (path for path, _ in named.most_common(4) if _may_open(path) and _is_of(path, uid)), None
    )


def _may_open(path: str) -> bool:
    if "\0" in path or not path.startswith("/") or os.path.normpath(path) != path:
        return False
    if os.geteuid() != 0:
        return True
    return Path(path).parent in _user_folders() or Path(path).is_relative_to(_runtime_dir())


def _user_folders() -> tuple[Path, ...]:
    return Path("/dev/shm"), Path("/tmp"), Path(tempfile.gettempdir())


def _runtime_dir() -> str:
    try:
        return config.load().runtime_dir
    except ConfigError:
        return config.Config.runtime_dir


def _is_of(path: str, uid: int) -> bool:
    """A real folder of the job's user."""
    try:
        facts = Path(path).lstat()
    except OSError:
        return False
    return facts.st_uid == uid and not Path(path).is_symlink() and Path(path).is_dir()
