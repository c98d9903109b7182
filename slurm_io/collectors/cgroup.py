"""The job's control group: CPU, throttling, memory and its limit, block I/O, pressure.

Source
    v2: cpu.stat, memory.current, memory.stat, memory.max, io.stat, {io,cpu,memory}.pressure.
    v1: cpuacct.usage, cpu.stat, memory.usage_in_bytes, memory.stat, memory.limit_in_bytes,
    blkio.throttle.io_service_bytes_recursive.

Columns
    Table ``cgroup``, one row per group and tick, also when it holds no process: a step that crashed
    can leave a job that has its GPUs and does nothing. The limit is the tightest on the way up to
    the root. ``read_bytes`` and ``write_bytes`` count disks with nothing below them, and never
    network file systems. A controller that is not split by job (v1 blkio often stays
    with slurmd) is null.

Needs
    A control group of the job's own (Slurm's cgroup plugins, or a container). Block I/O on v2 needs
    ``EnableExtraControllers=io`` in cgroup.conf (Slurm 25.05 and later). Processes of a container
    that was started through a daemon (docker) lie outside the job's group: this table does not have
    them, the process table does when their environment names the job.

Cost
    0.1 ms of CPU a tick and group with caches warm, 0.3 ms when the machine did other work in
    between, most of it memory.stat in the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Row, Tick
from slurm_io.host.cgroup_counters import CgroupCounters, CgroupSource
from slurm_io.host.cgroup_io import LowestDevices
from slurm_io.host.cgroup_limits import memory_limit_bytes
from slurm_io.host.job_cgroups import JobCgroup, resolve_cgroup, unified_root, v1_controllers

_LIMIT_PERIOD_NS = 30 * 1_000_000_000
_SOON_NS = 3 * 1_000_000_000


@dataclass
class _Group:
    """One watched group and its last reading."""

    source: CgroupSource
    limit_bytes: int | None
    found_ns: int
    look_again_ns: int
    last: CgroupCounters | None = None
    last_mono_ns: int = 0


@COLLECTORS.register("cgroup")
class Cgroup:
    """Rows of the cgroup table."""

    name = "cgroup"
    table = "cgroup"
    period_s = 1.0

    def __init__(self) -> None:
        self._context: Context | None = None
        self._groups: dict[str, _Group] = {}
        self._is_lowest: LowestDevices | None = None
        self._seen: dict[str, dict[str, object]] = {}

    def open(self, context: Context) -> Availability:
        """A job's group may come with its first step, after the sampler: then state is partial."""
        self._context = context
        self._is_lowest = LowestDevices(context.sys_root)
        if unified_root(context.sys_root) is None and not v1_controllers(context.sys_root):
            return Availability("off", "no control groups are mounted")
        self._follow_paths(0)
        return self._availability()

    def collect(self, tick: Tick) -> list[Row]:
        """One row for each of the job's groups, none at a group's first tick."""
        self._follow_paths(tick.mono_ns)
        rows = (self._row(path, tick) for path in list(self._groups))
        return [row for row in rows if row is not None]

    def facts(self) -> dict[str, object]:
        """Version of each group there was and what it does not tell; `state` as it is by now."""
        now = self._availability()
        return {"groups": dict(self._seen), "state": now.state, "reason": now.reason}

    def close(self) -> None:
        """Give the descriptors back."""
        for path in list(self._groups):
            self._forget(path)

    def _availability(self) -> Availability:
        if not self._seen:
            return Availability("partial", "the job has had no control group of its own here")
        reasons = {
            str(why)
            for group in self._seen.values()
            for why in dict(group["missing"]).values()  # type: ignore[call-overload]
        }
        return (
            Availability("partial", "; ".join(sorted(reasons))) if reasons else Availability("on")
        )

    def _follow_paths(self, mono_ns: int) -> None:
        assert self._context is not None and self._is_lowest is not None
        paths = dict.fromkeys(self._context.cgroup_paths())
        for path in self._groups.keys() - paths.keys():
            self._forget(path)
        for path in paths.keys() - self._groups.keys():
            cgroup = _best(resolve_cgroup(self._context.sys_root, path))
            if cgroup is not None:
                source = CgroupSource(cgroup, self._is_lowest)
                limit_bytes = memory_limit_bytes(cgroup)
                self._groups[path] = _Group(source, limit_bytes, mono_ns, mono_ns + _SOON_NS)
                self._note(path, source)

    def _look_again(self, path: str, group: _Group, mono_ns: int) -> None:
        """Limits change, and in the beginning controllers join: Slurm makes the v1 groups one after
        the other."""
        assert self._context is not None and self._is_lowest is not None
        cgroup = _best(resolve_cgroup(self._context.sys_root, path))
        if cgroup is not None and cgroup.folders.keys() > group.source.cgroup.folders.keys():
            group.source.close()
            group.source = CgroupSource(cgroup, self._is_lowest)
            self._note(path, group.source)
        group.limit_bytes = memory_limit_bytes(group.source.cgroup)
        is_young = mono_ns - group.found_ns < _LIMIT_PERIOD_NS
        group.look_again_ns = mono_ns + (_SOON_NS if is_young else _LIMIT_PERIOD_NS)

    def _note(self, path: str, source: CgroupSource) -> None:
        self._seen[path] = {"version": source.cgroup.version, "missing": dict(source.missing())}

    def _forget(self, path: str) -> None:
        self._groups.pop(path).source.close()

    def _row(self, path: str, tick: Tick) -> Row | None:
        group = self._groups[path]
        now = group.source.read()
        if now is None:
            self._forget(path)
            return None
        if tick.mono_ns >= group.look_again_ns:
            self._look_again(path, group, tick.mono_ns)
        before, last_mono_ns = group.last, group.last_mono_ns
        group.last, group.last_mono_ns = now, tick.mono_ns
        if before is None or tick.mono_ns <= last_mono_ns:
            return None
        return (
            tick.ts_ns,
            tick.mono_ns,
            tick.mono_ns - last_mono_ns,
            path,
            group.source.cgroup.version,
            _grown(before.cpu_ns, now.cpu_ns),
            _grown(before.throttled_ns, now.throttled_ns),
            _grown(before.throttled_periods, now.throttled_periods),
            now.mem_current_bytes,
            group.limit_bytes,
            now.mem_anon_bytes,
            now.mem_file_bytes,
            now.mem_shmem_bytes,
            _grown(before.read_bytes, now.read_bytes),
            _grown(before.write_bytes, now.write_bytes),
            _grown(before.psi_io_some_ns, now.psi_io_some_ns),
            _grown(before.psi_cpu_some_ns, now.psi_cpu_some_ns),
            _grown(before.psi_memory_some_ns, now.psi_memory_some_ns),
        )


def _best(found: list[JobCgroup]) -> JobCgroup | None:
    """Of a hybrid system's two groups the v1 one: its v2 tree has no controllers."""
    return max(found, key=lambda cgroup: "memory" in cgroup.folders, default=None)


def _grown(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None or now < before else now - before
