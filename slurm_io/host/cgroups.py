"""Reads /proc/PID/cgroup and tells which Slurm job, step and task its paths name.

Lines are ``hierarchy:controllers:path``; the one with hierarchy 0 and no controllers is cgroup v2::

    4:memory:/slurm/uid_10001/job_62238108/step_0/task_0
    0::/system.slice/node7_slurmstepd.scope/job_12/step_batch/user/task_0

Each v1 controller has a path of its own: some stay in slurmd's group, some end at the step, so the
job is whatever any controller knows, and the deepest path tells step and task. The name in Slurm's
place is ``job_<id>``, and from 26.05 the SLUID (``s`` and 13 characters) on v2. A container started
by a job (docker in a pod) lies beside the job's group, not in it: then no job is found here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_JOB = re.compile(
    r"/(?:(?P<v1>slurm(?:_[^/]+)?/uid_(?P<uid>\d+))|(?P<v2>[^/]*slurmstepd\.scope))"
    r"/(?:job_(?P<job>\d+)|(?P<sluid>s[0-9A-HJKMNP-TV-Z]{13}))"
    r"(?:/step_(?P<step>[^/]+))?(?:/user|/slurm)?(?:/task_(?P<task>[^/]+))?"
)


@dataclass(frozen=True)
class ProcessCgroups:
    """Paths of one process: `v2_path` in the unified hierarchy, `v1_paths` by controller name."""

    v2_path: str | None
    v1_paths: dict[str, str]

    @property
    def version(self) -> int:
        """2 when no v1 controller is mounted, else 1 (hybrid systems count as 1)."""
        return 1 if any("=" not in name for name in self.v1_paths) else 2


@dataclass(frozen=True)
class SlurmPlace:
    """Where in a Slurm job a process sits. `task` is None for special tasks, `uid` on v2."""

    job_id: int | None
    sluid: str | None
    step: str | None
    task: int | None
    uid: int | None


def parse_proc_cgroup(text: str) -> ProcessCgroups:
    """All hierarchies of a process; co-mounted controllers (``cpuacct,cpu``) each by their name."""
    v2_path = None
    v1_paths: dict[str, str] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if not colon or not number.isdigit():
            continue
        if controllers:
            v1_paths.update(dict.fromkeys(controllers.split(","), path))
        elif number == "0":
            v2_path = path
    return ProcessCgroups(v2_path, v1_paths)


def slurm_place(cgroups: ProcessCgroups) -> SlurmPlace | None:
    """The job the process belongs to by its control groups; None when no path names one."""
    paths = [*cgroups.v1_paths.values(), *((cgroups.v2_path,) if cgroups.v2_path else ())]
    places = [place for path in paths if (place := place_of_path(path)) is not None]
    return max(places, key=_depth) if places else None


def place_of_path(path: str) -> SlurmPlace | None:
    """What one control group path says, wherever in it the Slurm part begins."""
    found = _JOB.search(path)
    if found is None:
        return None
    job, uid, task = found["job"], found["uid"], found["task"]
    return SlurmPlace(
        job_id=int(job) if job else None,
        sluid=found["sluid"],
        step=found["step"],
        task=int(task) if task and task.isdigit() else None,
        uid=int(uid) if uid else None,
    )


def job_path(path: str) -> str | None:
    """`path` cut behind the job's own folder, e.g. ``/slurm/uid_7/job_9``; None when no job's."""
    found = _JOB.search(path)
    return path[: found.end("job" if found["job"] else "sluid")] if found else None


def _depth(place: SlurmPlace) -> int:
    return (place.step is not None) + (place.task is not None)
