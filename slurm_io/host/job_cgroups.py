"""Finds a job's control groups below /sys/fs/cgroup, v1, v2 or both, and its processes.

Known shapes: v2 ``<slice>/[<node>_]slurmstepd.scope/{job_<id>|<SLUID>}``, the slice also deep below
a pod's groups (slurmd in Kubernetes); v1 ``<controller>/slurm[_<node>]/uid_<uid>/job_<id>``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_io.host.read import read_optional_text

_MOST_FOLDERS = 4000
_DEEPEST = 7
_SLUID = re.compile(r"s[0-9A-HJKMNP-TV-Z]{13}")


@dataclass(frozen=True)
class JobCgroup:
    """One control group of a job.

    `path` is what stands below the root of its hierarchy (``/slurm/uid_7/job_9``), `folders` the
    directory of each v1 controller, or of ``"unified"`` for v2.
    """

    version: int
    path: str
    folders: dict[str, Path]


def cgroup_root(sys_root: Path) -> Path:
    """Where the hierarchies are mounted."""
    return sys_root / "fs" / "cgroup"


def unified_root(sys_root: Path) -> Path | None:
    """Root of the v2 hierarchy: the whole tree, ``unified/`` on hybrid systems, None on pure v1."""
    root = cgroup_root(sys_root)
    for candidate in (root, root / "unified"):
        if (candidate / "cgroup.controllers").is_file():
            return candidate
    return None


def v1_controllers(sys_root: Path) -> dict[str, Path]:
    """Controller name -> root folder of its hierarchy; empty on a pure v2 system.

    Co-mounted controllers share a folder (``cpu,cpuacct``, or the other way round); the short names
    beside it may be links or missing, so names are taken from the folder's own name too.
    """
    found: dict[str, Path] = {}
    if (cgroup_root(sys_root) / "cgroup.controllers").is_file():
        return found
    for folder in _folders(cgroup_root(sys_root)):
        if folder.name not in ("unified", "systemd"):
            for name in folder.name.split(","):
                found.setdefault(name, folder)
    return found


def find_job_cgroups(
    sys_root: Path, job_id: str, sluid: str | None = None, node_name: str | None = None
) -> list[JobCgroup]:
    """Control groups of job `job_id` (`sluid` is the name 26.05 gives it) on this node.

    `node_name` matters where several slurmd share a machine: only that node's scope counts then.
    Empty when there is none (no cgroup plugin, or the first step has not started yet). An array
    task or a het component has its own job id, as SLURM_JOB_ID says.
    """
    if not job_id.isascii() or not job_id.isdigit():
        return []
    names = [f"job_{job_id}"]
    if sluid and _SLUID.fullmatch(sluid):
        names.append(sluid)
    return [*_find_v2(sys_root, names, node_name), *_find_v1(sys_root, names[0], node_name)]


def resolve_cgroup(sys_root: Path, path: str) -> list[JobCgroup]:
    """What lies at `path` (below the root of its hierarchy) in v2 and v1; empty when nothing."""
    relative = path.lstrip("/")
    if ".." in relative.split("/"):
        return []
    found = []
    root = unified_root(sys_root)
    if root is not None and (root / relative).is_dir():
        found.append(JobCgroup(2, path, {"unified": root / relative}))
    folders = {
        name: folder / relative
        for name, folder in v1_controllers(sys_root).items()
        if (folder / relative).is_dir()
    }
    if folders:
        found.append(JobCgroup(1, path, folders))
    return found


def processes_in(cgroup: JobCgroup) -> set[int]:
    """Pids in the group and all groups below it, in this process's namespace."""
    return {pid for folder in set(cgroup.folders.values()) for pid in _processes_below(folder)}


def _find_v2(sys_root: Path, names: Sequence[str], node_name: str | None) -> Iterator[JobCgroup]:
    root = unified_root(sys_root)
    if root is None:
        return
    for scope in _scopes(root, node_name):
        for name in names:
            if (scope / name).is_dir():
                path = "/" + str((scope / name).relative_to(root))
                yield JobCgroup(2, path, {"unified": scope / name})


def _scopes(root: Path, node_name: str | None) -> list[Path]:
    """Slurm's scopes: in the slices, and only when there is none there, anywhere below."""
    near = [folder for top in _folders(root) for folder in [top, *_folders(top)]]
    scopes = [folder for folder in near if folder.name.endswith("slurmstepd.scope")]
    scopes = scopes or [f for f in _walk(root) if f.name.endswith("slurmstepd.scope")]
    own = f"{node_name}_slurmstepd.scope"
    return [scope for scope in scopes if scope.name == own] or [
        scope for scope in scopes if node_name is None or scope.name == "slurmstepd.scope"
    ]


def _find_v1(sys_root: Path, name: str, node_name: str | None) -> Iterator[JobCgroup]:
    by_path: dict[str, dict[str, Path]] = {}
    for controller, root in v1_controllers(sys_root).items():
        for folder in _v1_job_folders(root, name, node_name):
            path = "/" + str(folder.relative_to(root))
            by_path.setdefault(path, {})[controller] = folder
    for path, folders in sorted(by_path.items()):
        yield JobCgroup(1, path, folders)


def _v1_job_folders(root: Path, name: str, node_name: str | None) -> list[Path]:
    own = [root / f"slurm_{node_name}"] if node_name else []
    if not own or not own[0].is_dir():
        own = [root / "slurm"] if node_name else [root / "slurm", *root.glob("slurm_*")]
    return [job for top in own for job in top.glob(f"uid_*/{name}") if job.is_dir()]


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                folder / entry.name for entry in entries if entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []


def _walk(root: Path) -> Iterator[Path]:
    """Folders below `root`, nearest first, bounded in depth and number."""
    level, seen = [root], 0
    for _ in range(_DEEPEST):
        level = [child for folder in level for child in _folders(folder)]
        seen += len(level)
        yield from level
        if seen > _MOST_FOLDERS:
            return


def _processes_below(folder: Path) -> Iterator[int]:
    for child in [folder, *_walk(folder)]:
        text = read_optional_text(child / "cgroup.procs") or ""
        yield from (int(word) for word in text.split() if word != "0")
