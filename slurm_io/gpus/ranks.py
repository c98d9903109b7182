"""Which rank uses which GPU, where that can be proved.

The driver's list of compute processes proves it: its pids are those of the machine's first
namespace. Where the driver does not tell, a rank that has exactly one GPU's device file open is
taken at that; with several open nothing is proved, because CUDA opens all it may see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from slurm_io.gpus.evidence import open_files, sees_all_pids

_MOST_RANKS_LOOKED_AT = 64


class Process(Protocol):
    """A process of the job."""

    @property
    def pid(self) -> int: ...
    @property
    def rank(self) -> int | None: ...
    @property
    def role(self) -> str: ...


def gpus_of_ranks(
    members: Iterable[Process],
    processes: Mapping[str, Sequence[int]],
    gpus: Sequence[Mapping[str, Any]],
    proc_root: Path,
    with_files: bool = True,
) -> dict[str, object]:
    """Rank -> ``{"gpus": [uuid], "by": "compute process" | "open device file"}``.

    Args:
        members: the job's processes; only those whose role is "rank" count.
        processes: GPU or instance -> pids with a compute context, as the driver knows them.
        gpus: the GPUs read (uuid, minor, vendor).
        proc_root: where /proc is.
        with_files: look at open device files too, a few hundred system calls for each rank.
    """
    ranks = [member for member in members if member.role == "rank" and member.rank is not None]
    by_pid: dict[int, list[str]] = {}
    if sees_all_pids(proc_root):
        for uuid, pids in processes.items():
            for pid in pids:
                by_pid.setdefault(pid, []).append(uuid)
    found: dict[str, object] = {}
    for member in ranks[:_MOST_RANKS_LOOKED_AT]:
        used, by = by_pid.get(member.pid, []), "compute process"
        if not used and with_files:
            used, by = _only_open_gpu(member.pid, gpus, proc_root), "open device file"
        if used:
            found[str(member.rank)] = {"gpus": used, "by": by}
    return found


def _only_open_gpu(pid: int, gpus: Sequence[Mapping[str, Any]], proc_root: Path) -> list[str]:
    files = open_files(proc_root, pid)
    opened = {"nvidia": files.nvidia, "amd": files.render}
    if len(files.nvidia) + len(files.render) != 1:
        return []
    return [
        str(gpu["uuid"])
        for gpu in gpus
        if gpu["uuid"] is not None and gpu["minor"] in opened.get(gpu["vendor"], ())
    ]
