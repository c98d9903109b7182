"""The job's control groups as they come, grow and go.

They come with the first step, after the sampler; the v1 hierarchies one after the other. So they
are looked for at every refresh in the beginning and ever more seldom later; below pods, which means
a walk over all groups of the node, a few times only. In user mode below Slurm it is the group
that the sampler itself sits in: the whole job's, of which the command may be a part.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from slurm_io.host.cgroups import ProcessCgroups, job_path, parse_proc_cgroup
from slurm_io.host.job_cgroups import (
    JobCgroup,
    WhichJob,
    contents_of,
    find_job_cgroups,
    is_sluid,
    resolve_cgroup,
)
from slurm_io.host.read import read_optional_text
from slurm_io.model import SamplerSpec

_EAGER_LOOKS = 20
_LOOK_EVERY = 30
_SELDOM_LOOK_EVERY = 5  # while there is none yet
_DEEP_LOOKS = (0, 2, 8, 20, 60)
_DEEP_LOOK_EVERY = 300


class JobGroups:
    """:attr:`groups` are the job's, as of the last :meth:`refresh`; :attr:`foreign`: how many of
    their processes have no pid in this namespace, as of the last :meth:`pids`."""

    def __init__(self, spec: SamplerSpec) -> None:
        self._sys_root = Path(spec.sys_root)
        self._proc_root = Path(spec.proc_root)
        own = parse_proc_cgroup(read_optional_text(self._proc_root / "self/cgroup") or "")
        self._job = WhichJob(spec.job.job, spec.sluid, spec.node, spec.job.uid, own.v2_path)
        self._found_at: int | None = None
        self.groups = self._groups_at(own) if spec.mode == "user" else []
        self.foreign = 0

    def refresh(self, refreshes: int) -> None:
        """`refreshes` counts the calls."""
        if not self._is_turn(refreshes):
            return
        known = {(group.version, group.path): group for group in self._still_there()}
        deep = refreshes in _DEEP_LOOKS or refreshes % _DEEP_LOOK_EVERY == 0
        for group in find_job_cgroups(self._sys_root, self._job, deep=deep and not known):
            known[group.version, group.path] = group
        self._replace(list(known.values()), refreshes)

    def pids(self) -> frozenset[int] | None:
        """What the groups hold now: nothing is an answer too. None without a group."""
        if not self.groups:
            return None
        contents = [contents_of(group) for group in self.groups]
        self.foreign = max(each.foreign for each in contents)
        return frozenset[int]().union(*(each.pids for each in contents))

    def sluid(self) -> str | None:
        """The folder's name where it is one."""
        names = (group.path.rpartition("/")[2] for group in self.groups)
        return next((name for name in names if is_sluid(name)), None)

    def paths(self) -> list[str]:
        """Below the roots of their hierarchies."""
        return [group.path for group in self.groups]

    def adopt(self, pids: Iterable[int], refreshes: int) -> None:
        """Take the groups that processes of the job sit in: from Slurm 26.05 on the folder's name
        is the SLUID, which not everybody who starts a sampler knows. `pids` must be Slurm's word.
        """
        found: dict[tuple[int, str], JobCgroup] = {}
        for pid in pids:
            text = read_optional_text(self._proc_root / str(pid) / "cgroup", 65536)
            for group in self._groups_at(parse_proc_cgroup(text or "")):
                if is_sluid(group.path.rpartition("/")[2]):
                    found[group.version, group.path] = group
        if found:
            self._replace(list(found.values()), refreshes)

    def _groups_at(self, place: ProcessCgroups) -> list[JobCgroup]:
        """The Slurm job's groups that a process sits in."""
        v1 = {job_path(path) for path in place.v1_paths.values()}
        wanted = {(1, path) for path in v1} | {(2, job_path(place.v2_path or ""))}
        return [
            group
            for version, path in sorted(wanted, key=str)
            if path is not None
            for group in resolve_cgroup(self._sys_root, path)
            if group.version == version
        ]

    def _is_turn(self, refreshes: int) -> bool:
        if self._found_at is None:
            return refreshes <= _EAGER_LOOKS or refreshes % _SELDOM_LOOK_EVERY == 0
        return refreshes - self._found_at <= _EAGER_LOOKS or refreshes % _LOOK_EVERY == 0

    def _still_there(self) -> list[JobCgroup]:
        return [
            again
            for group in self.groups
            for again in resolve_cgroup(self._sys_root, group.path)
            if again.version == group.version
        ]

    def _replace(self, groups: list[JobCgroup], refreshes: int) -> None:
        if groups and not self.groups:
            self._found_at = refreshes
        self.groups = groups
        if not groups:
            self._found_at = None
