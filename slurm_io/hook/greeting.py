"""What a ring says about its process: who it is, which rank, which interpreter."""

from __future__ import annotations

import os
import sys

from . import record, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HOOK_VERSION = "1"


def process_starttime() -> int:
    """Field 22 of /proc/self/stat: clock ticks since boot. With the pid it names a process."""
    with open("/proc/self/stat", "rb") as stat:
        after_name = stat.read().rpartition(b")")[2].split()
    return int(after_name[19])


def greet(starttime: int) -> bytes:
    """The greeting as JSON; what the process does not know is null."""
    slurm_procid = _env_int("SLURM_PROCID")
    torch = getattr(sys.modules.get("torch"), "__version__", None)
    fields: dict[str, Any] = {
        "pid": os.getpid(),
        "starttime": starttime,
        "rank": _first_known(_env_int("RANK"), slurm_procid),
        "local_rank": _first_known(_env_int("LOCAL_RANK"), _env_int("SLURM_LOCALID")),
        "world_size": _first_known(_env_int("WORLD_SIZE"), _env_int("SLURM_NTASKS")),
        "slurm_procid": slurm_procid,
        "python": "%d.%d.%d" % sys.version_info[:3],
        "torch": None if torch is None else str(torch),
        "argv0": (list(getattr(sys, "argv", [])) or [None])[0],
        "hook": HOOK_VERSION,
    }
    return text.encode(fields, record.GREETING_BYTES)


def _env_int(name: str) -> int | None:
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        return None


def _first_known(first: int | None, second: int | None) -> int | None:
    return second if first is None else first
