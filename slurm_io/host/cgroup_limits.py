"""The memory limit that binds a control group: the tightest one on its way up to the root.

The group itself often has none: v1 task groups hold 2^63 - 4096 while the job's group two levels up
holds the limit Slurm set; v2 says ``max``.
"""

from __future__ import annotations

from pathlib import Path

from slurm_io.host.job_cgroups import JobCgroup
from slurm_io.host.read import read_optional_line

_UNLIMITED_FROM_BYTES = 1 << 62


def memory_limit_bytes(cgroup: JobCgroup) -> int | None:
    """Bytes the group may use; None when nothing on the way up limits it or can be read."""
    folder = cgroup.folders.get("unified" if cgroup.version == 2 else "memory")
    if folder is None:
        return None
    name = "memory.max" if cgroup.version == 2 else "memory.limit_in_bytes"
    levels = len([part for part in cgroup.path.split("/") if part])
    folders = [folder, *folder.parents][: levels + 1]
    limits = [limit for level in folders if (limit := _limit(level / name)) is not None]
    return min(limits, default=None)


def _limit(path: Path) -> int | None:
    line = read_optional_line(path)
    if line is None or not line.isdigit() or int(line) >= _UNLIMITED_FROM_BYTES:
        return None
    return int(line)
