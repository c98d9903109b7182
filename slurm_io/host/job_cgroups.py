"""Finds a job's control groups below /sys/fs/cgroup, v1, v2 or both, and its processes.

Known shapes: v2 ``<slice>/[<node>_]slurmstepd.scope/{job_<id>|<SLUID>}``, v1
``<controller>/slurm[_<node>]/uid_<uid>/job_<id>``, either of them also deep below a pod's groups
(slurmd in Kubernetes).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_io.host.read import read_optional_text

_MOST_FOLDERS = 4000
_DEEPEST = 12
_SLUID = re.compile(r"s[0-9A-HJKMNP-TV-Z]{13}")
_TOP = re.compile(r"slurm(_.+)?")
# Which hierarchy is searched in depth: Slurm's proctrack plugin always makes a freezer group.
_SEARCHED_FIRST = ("freezer", "memory", "cpuset", "devices")


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


@dataclass(frozen=True)
class WhichJob:
    """What tells a job's groups from others'. An array task or a het component has its own job id,
    as SLURM_JOB_ID says.

    `sluid` is the folder's name from Slurm 26.05 on. `node_name` matters where several slurmd share
    a machine: only that node's groups count then. `uid` leaves out another cluster's job of the
    same number. `own_path` is where the one who asks sits (the v2 line of /proc/self/cgroup): of
    several pods' Slurm clusters that all have such a job, the one in the same pod is meant.
    """

    job_id: str
    sluid: str | None = None
    node_name: str | None = None
    uid: int | None = None
    own_path: str | None = None

    def names(self) -> list[str]:
        """Folder names the job may have; empty when the id is none."""
        if not self.job_id.isascii() or not self.job_id.isdigit():
            return []
        sluids = [self.sluid] if self.sluid is not None and is_sluid(self.sluid) else []
        return [f"job_{self.job_id}", *sluids]


def is_sluid(name: str) -> bool:
    """Whether a name has the form of a job's SLUID (``s`` and 13 characters)."""
    return _SLUID.fullmatch(name) is not None


def find_job_cgroups(sys_root: Path, job: WhichJob, deep: bool = True) -> list[JobCgroup]:
    """Control groups of a job on this node.

    Empty when there is none (no cgroup plugin, or the first step has not started yet). `deep`:
    search below pods too when nothing is found in the usual places, at most 4000 folders.
    """
    if not job.names():
        return []
    return [*_find_v2(sys_root, job, deep), *_find_v1(sys_root, job, deep)]


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


@dataclass(frozen=True)
class Contents:
    """Pids as this process's namespace has them; `foreign`: how many processes have none there."""

    pids: frozenset[int]
    foreign: int


def contents_of(cgroup: JobCgroup) -> Contents:
    """The processes in the group and all groups below it.

    The kernel shows a process of a pid namespace that is not below ours as 0.
    """
    found = [list(_processes_below(folder)) for folder in set(cgroup.folders.values())]
    pids = frozenset(pid for each in found for pid in each if pid)
    # Each v1 hierarchy shows the same processes.
    return Contents(pids, max((each.count(0) for each in found), default=0))


def _find_v2(sys_root: Path, job: WhichJob, deep: bool) -> list[JobCgroup]:
    root = unified_root(sys_root)
    if root is None:
        return []
    near = [folder for top in _folders(root) for folder in [top, *_folders(top)]]
    found = _jobs_in_scopes(root, near, job)
    if not found and deep:
        found = _nearest(_jobs_in_scopes(root, _walk(root), job), job.own_path)
    return found


def _jobs_in_scopes(root: Path, folders: Iterable[Path], job: WhichJob) -> list[JobCgroup]:
    scopes = [folder for folder in folders if folder.name.endswith("slurmstepd.scope")]
    own = f"{job.node_name}_slurmstepd.scope"
    usable = [scope for scope in scopes if scope.name == own] or [
        scope for scope in scopes if job.node_name is None or scope.name == "slurmstepd.scope"
    ]
    return [
        JobCgroup(2, "/" + str(folder.relative_to(root)), {"unified": folder})
        for scope in usable
        for folder in (scope / name for name in job.names())
        if folder.is_dir()
    ]


def _nearest(found: list[JobCgroup], own_path: str | None) -> list[JobCgroup]:
    """Those whose path has most in common with `own_path`; all when it is not known."""
    if own_path is None or len(found) < 2:
        return found
    own = own_path.split("/")
    shared = [_common_start(own, group.path.split("/")) for group in found]
    return [group for group, each in zip(found, shared, strict=True) if each == max(shared)]


def _common_start(one: list[str], other: list[str]) -> int:
    for position, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return position
    return min(len(one), len(other))


def _find_v1(sys_root: Path, job: WhichJob, deep: bool) -> list[JobCgroup]:
    roots = v1_controllers(sys_root)
    tops = {name: _v1_tops(root, _folders(root), job) for name, root in roots.items()}
    found = _v1_groups(roots, tops, job)
    if not found and deep:
        found = _nearest(_v1_groups(roots, _deep_v1_tops(roots, job), job), job.own_path)
    return found


def _v1_groups(
    roots: dict[str, Path], tops: dict[str, list[Path]], job: WhichJob
) -> list[JobCgroup]:
    """Each controller has a path of its own: those that end at the same job are one group."""
    uid = "*" if job.uid is None else str(job.uid)
    by_path: dict[str, dict[str, Path]] = {}
    for controller, root in roots.items():
        for top in tops.get(controller, ()):
            for folder in top.glob(f"uid_{uid}/job_{job.job_id}"):
                if folder.is_dir():
                    path = "/" + str(folder.relative_to(root))
                    by_path.setdefault(path, {})[controller] = folder
    return [JobCgroup(1, path, folders) for path, folders in sorted(by_path.items())]


def _v1_tops(root: Path, folders: Iterable[Path], job: WhichJob) -> list[Path]:
    tops = [folder for folder in folders if _TOP.fullmatch(folder.name)]
    if job.node_name is None:
        return tops
    own = [folder for folder in tops if folder.name == f"slurm_{job.node_name}"]
    return own or [folder for folder in tops if folder.name == "slurm"]


def _deep_v1_tops(roots: dict[str, Path], job: WhichJob) -> dict[str, list[Path]]:
    """One hierarchy is searched; the others have the same folders or none."""
    names = [name for name in _SEARCHED_FIRST if name in roots] or sorted(roots)
    if not names:
        return {}
    root = roots[names[0]]
    below = [top.relative_to(root) for top in _v1_tops(root, _walk(root), job)]
    return {name: [each / path for path in below] for name, each in roots.items()}


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
        yield from (int(word) for word in text.split() if word.isdecimal())
