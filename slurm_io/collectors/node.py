"""The whole node: CPU shares, memory, pressure (PSI), network and InfiniBand bytes.

Source
    /proc/stat, meminfo, vmstat, pressure/{cpu,io,memory}, net/dev;
    /sys/class/infiniband/*/ports/*/counters.

Columns
    Table ``node``, one row a tick, the first tick none. CPU shares have all CPUs of the node as
    their base. ``net_*`` adds up network cards; bonds, bridges and VLANs on top of them would count
    the same bytes twice. A counter that went back, or stands at its 32-bit ceiling (old InfiniBand
    counters stop there), is null for that interval.

Needs
    Nothing. PSI is compiled in but off on RHEL 8 and 9 (boot option psi=1): null, with the reason
    in meta.json. Pressure and iowait miss Lustre, FUSE and NFS direct I/O.

Cost
    0.15 ms of CPU a tick with caches warm, 0.5 ms when the machine did other work in between, more
    than half of it in the kernel; more with hundreds of CPUs (/proc/stat, /proc/vmstat).
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Row, Tick
from slurm_io.host.cpu import cpu_shares, cpu_ticks, tasks_running_and_blocked
from slurm_io.host.fields import number_after, pressure_total_us
from slurm_io.host.kept import KeptFile
from slurm_io.host.network import Bytes, InfinibandPorts, Interfaces, moved_bytes

_FILES = ("stat", "meminfo", "vmstat", "pressure/cpu", "pressure/io", "pressure/memory")
_PRESSURE = (
    ("pressure/cpu", b"some"),
    ("pressure/io", b"some"),
    ("pressure/io", b"full"),
    ("pressure/memory", b"some"),
    ("pressure/memory", b"full"),
)
_MEMORY = (b"MemTotal:", b"MemAvailable:", b"Cached:", b"Shmem:", b"Dirty:", b"Writeback:")


@dataclass(frozen=True)
class _Counters:
    """What is only of use as a difference of two readings."""

    mono_ns: int
    cpu: tuple[int, ...] | None
    major_faults: int | None
    pressure_us: tuple[int | None, ...]
    network: dict[bytes, Bytes] | None
    infiniband: dict[bytes, Bytes] | None


@COLLECTORS.register("node")
class Node:
    """Rows of the node table."""

    name = "node"
    table = "node"
    period_s = 1.0

    def __init__(self) -> None:
        self._files: dict[str, KeptFile] = {}
        self._interfaces = Interfaces(Path("/proc"), Path("/sys"))
        self._infiniband = InfinibandPorts(Path("/nonexistent"))
        self._missing: dict[str, str] = {}
        self._last: _Counters | None = None

    def open(self, context: Context) -> Availability:
        """Look which of the files are there."""
        self._files = {name: KeptFile(context.proc_root / name) for name in _FILES}
        self._interfaces = Interfaces(context.proc_root, context.sys_root)
        self._infiniband = InfinibandPorts(context.sys_root)
        self._missing = {
            name: _why(source) for name, source in self._files.items() if source.read() is None
        }
        if self._interfaces.read() is None:
            self._missing["net/dev"] = "no network interface but lo is visible"
        if len(self._missing) == len(_FILES) + 1:
            return Availability("off", f"nothing readable below {context.proc_root}")
        if self._missing:
            return Availability("partial", "; ".join(sorted(set(self._missing.values()))))
        return Availability("on")

    def collect(self, tick: Tick) -> list[Row]:
        """One row, none at the first tick."""
        texts = {name: source.read() or b"" for name, source in self._files.items()}
        before, now = self._last, self._count(tick, texts)
        self._last = now
        if not any(texts.values()) and now.network is None:
            return []
        if before is None or now.mono_ns <= before.mono_ns:
            return []
        return [
            (
                tick.ts_ns,
                tick.mono_ns,
                now.mono_ns - before.mono_ns,
                *cpu_shares(before.cpu, now.cpu),
                *tasks_running_and_blocked(texts["stat"]),
                *_memory_bytes(texts["meminfo"]),
                _grown(before.major_faults, now.major_faults),
                *_pressure_ns(before, now),
                *(moved_bytes(before.network, now.network) or (None, None)),
                *(moved_bytes(before.infiniband, now.infiniband) or (None, None)),
            )
        ]

    def facts(self) -> dict[str, object]:
        """What is missing and why, and which interfaces are counted."""
        missing = dict(self._missing)
        if not self._infiniband.names:
            missing["infiniband"] = "no InfiniBand port here"
        return {
            "missing": missing,
            "interfaces": self._interfaces.names,
            "infiniband_ports": self._infiniband.names,
        }

    def close(self) -> None:
        """Give the descriptors back."""
        for source in self._files.values():
            source.close()
        self._interfaces.close()
        self._infiniband.close()

    def _count(self, tick: Tick, texts: dict[str, bytes]) -> _Counters:
        return _Counters(
            mono_ns=tick.mono_ns,
            cpu=cpu_ticks(texts["stat"]),
            major_faults=number_after(texts["vmstat"], b"pgmajfault "),
            pressure_us=tuple(pressure_total_us(texts[name], kind) for name, kind in _PRESSURE),
            network=self._interfaces.read(),
            infiniband=self._infiniband.read(),
        )


def _memory_bytes(meminfo: bytes) -> tuple[int | None, ...]:
    swap_total, swap_free = (_kilobytes(meminfo, label) for label in (b"SwapTotal:", b"SwapFree:"))
    swap_used = None if swap_total is None or swap_free is None else swap_total - swap_free
    return (*(_kilobytes(meminfo, label) for label in _MEMORY), swap_used)


def _kilobytes(meminfo: bytes, label: bytes) -> int | None:
    kilobytes = number_after(meminfo, label)
    return None if kilobytes is None else kilobytes * 1024


def _pressure_ns(before: _Counters, now: _Counters) -> list[int | None]:
    grown_us = map(_grown, before.pressure_us, now.pressure_us)
    return [None if grown is None else grown * 1000 for grown in grown_us]


def _grown(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None or now < before else now - before


def _why(source: KeptFile) -> str:
    if "/pressure/" not in source.path:
        return f"{source.path} cannot be read"
    if source.error_number == errno.EOPNOTSUPP:
        return "pressure (PSI) is switched off: boot with psi=1"
    return "this kernel shows no pressure (PSI)"
