"""Counters of one control group, v1 or v2, as one common set; None for what is not there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slurm_io.host.cgroup_io import IsCounted, blkio_bytes, io_stat_bytes
from slurm_io.host.fields import first_number, number_after, pressure_total_us
from slurm_io.host.job_cgroups import JobCgroup
from slurm_io.host.kept import KeptFile

_V2_FILES = {
    "cpu": ("unified", "cpu.stat"),
    "memory": ("unified", "memory.current"),
    "memory detail": ("unified", "memory.stat"),
    "io": ("unified", "io.stat"),
    "io pressure": ("unified", "io.pressure"),
    "cpu pressure": ("unified", "cpu.pressure"),
    "memory pressure": ("unified", "memory.pressure"),
}
_V1_FILES = {
    "cpu": ("cpuacct", "cpuacct.usage"),
    "cpu quota": ("cpu", "cpu.stat"),
    "memory": ("memory", "memory.usage_in_bytes"),
    "memory detail": ("memory", "memory.stat"),
    # The file without "recursive" leaves out the groups below, where all processes are.
    "io": ("blkio", "blkio.throttle.io_service_bytes_recursive"),
}


@dataclass(frozen=True)
class CgroupCounters:
    """One reading. Times and bytes moved grow; memory is what is charged now."""

    cpu_ns: int | None = None
    throttled_ns: int | None = None
    throttled_periods: int | None = None
    mem_current_bytes: int | None = None
    mem_anon_bytes: int | None = None
    mem_file_bytes: int | None = None
    mem_shmem_bytes: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    psi_io_some_ns: int | None = None
    psi_cpu_some_ns: int | None = None
    psi_memory_some_ns: int | None = None


class CgroupSource:
    """Kept files of one control group."""

    def __init__(self, cgroup: JobCgroup, is_counted: IsCounted) -> None:
        self.cgroup = cgroup
        self._is_counted = is_counted
        names = _V2_FILES if cgroup.version == 2 else _V1_FILES
        self._files = {
            what: KeptFile(cgroup.folders[controller] / name)
            for what, (controller, name) in names.items()
            if controller in cgroup.folders
        }

    def read(self) -> CgroupCounters | None:
        """The counters now; None when nothing at all is readable: the group is gone."""
        texts = {
            what: text
            for what, source in self._files.items()
            if (text := source.read()) is not None
        }
        if not texts:
            return None
        read = self._v2 if self.cgroup.version == 2 else self._v1
        return read(lambda what: texts.get(what, b""), "io" in texts)

    def missing(self) -> dict[str, str]:
        """What this group does not tell -> why."""
        names = _V2_FILES if self.cgroup.version == 2 else _V1_FILES
        why = {
            what: _why(self.cgroup, what, controller, name)
            for what, (controller, name) in names.items()
            if what not in self._files or self._files[what].read() is None
        }
        if self.cgroup.version == 1:
            why["pressure"] = "control groups v1 know no pressure (PSI)"
        return why

    def close(self) -> None:
        """Give the descriptors back."""
        for source in self._files.values():
            source.close()

    def _v2(self, text: Callable[[str], bytes], has_io: bool) -> CgroupCounters:
        cpu, memory = text("cpu"), text("memory detail")
        moved = io_stat_bytes(text("io"), self._is_counted) if has_io else (None, None)
        return CgroupCounters(
            cpu_ns=_times(number_after(cpu, b"usage_usec "), 1000),
            throttled_ns=_times(number_after(cpu, b"throttled_usec "), 1000),
            throttled_periods=number_after(cpu, b"nr_throttled "),
            mem_current_bytes=first_number(text("memory")),
            mem_anon_bytes=number_after(memory, b"anon "),
            mem_file_bytes=number_after(memory, b"file "),
            mem_shmem_bytes=number_after(memory, b"shmem "),
            read_bytes=moved[0],
            write_bytes=moved[1],
            psi_io_some_ns=_times(pressure_total_us(text("io pressure"), b"some"), 1000),
            psi_cpu_some_ns=_times(pressure_total_us(text("cpu pressure"), b"some"), 1000),
            psi_memory_some_ns=_times(pressure_total_us(text("memory pressure"), b"some"), 1000),
        )

    def _v1(self, text: Callable[[str], bytes], has_io: bool) -> CgroupCounters:
        quota, memory = text("cpu quota"), text("memory detail")
        moved = blkio_bytes(text("io"), self._is_counted) if has_io else (None, None)
        return CgroupCounters(
            cpu_ns=first_number(text("cpu")),
            throttled_ns=number_after(quota, b"throttled_time "),
            throttled_periods=number_after(quota, b"nr_throttled "),
            mem_current_bytes=first_number(text("memory")),
            mem_anon_bytes=number_after(memory, b"total_rss "),
            mem_file_bytes=number_after(memory, b"total_cache "),
            mem_shmem_bytes=number_after(memory, b"total_shmem "),
            read_bytes=moved[0],
            write_bytes=moved[1],
        )


def _times(number: int | None, factor: int) -> int | None:
    return None if number is None else number * factor


def _why(cgroup: JobCgroup, what: str, controller: str, name: str) -> str:
    if cgroup.version == 1 and controller not in cgroup.folders:
        return f"the {controller} controller is not split by job, its numbers are not this job's"
    if what == "io" and cgroup.version == 2:
        return "the io controller is off for jobs (cgroup.conf: EnableExtraControllers=io)"
    return f"the kernel shows no {name} here"
