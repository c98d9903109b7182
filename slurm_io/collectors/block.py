"""Block devices, second by second, with the figures of ``iostat -dx``.

Source
    /proc/diskstats, one read a tick; /sys for the list of devices, once and for new ones; mountinfo
    of the node and of the job's processes every 30 s. Where /proc/diskstats is a file of lxcfs
    (LXC), /sys/class/block/*/stat, one read a device.

Columns
    Table ``block``, named as iostat names them, kB of 1024 bytes, awaits in ms. A device without
    I/O and without requests in flight in the interval has no row. A mean over no requests is null
    (iostat prints 0). Flushes are null on partitions. ``stuck``: requests were in flight at both
    ends of the interval and none completed; then rates are 0 while the disk hangs. A device whose
    counters went back (re-attached) has no row for that interval, counted in meta.json. RAM disks,
    zram, optical drives, floppies and nbd without a size have no rows. Loop devices have: an image
    can be the dataset.

    Never add layers: the same bytes show on partition, disk, md, dm and loop device. meta.json
    names under ``leaves`` for each mount the devices whose counters add up to its I/O, every byte
    once: the whole disks at the bottom (a mirror writes on each), a loop device only when its file
    is on a network or in memory. Of native NVMe multipath it is the head where this kernel counts
    on the head, else its paths (``mpath``, parent = the head); ``multipath`` says which.

Needs
    Nothing. Nothing of network file systems shows here, nor of ZFS pools, which hide their disks.

Cost
    One read and a parse of the lines that changed: tens of microseconds of CPU a tick with caches
    warm, some hundred when the machine did other work in between (bench/collectors_vs_iostat.py).
    Every 30 s the mounts: 0.3 ms for 160 of them, 4 ms when they changed.
"""

from __future__ import annotations

from pathlib import Path

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Row, Tick
from slurm_io.filesystems.block_devices import BlockDevices
from slurm_io.filesystems.diskstats import DiskCounters, counters_of
from slurm_io.filesystems.iostat_figures import figures, requests_waiting, went_back
from slurm_io.filesystems.mount_leaves import MountLeaves
from slurm_io.filesystems.mounts import read_mounts
from slurm_io.filesystems.multipath import counted_on, paths_by_head, silent_heads
from slurm_io.filesystems.sysfs_stats import SysfsStats
from slurm_io.host.kept import KeptFile

_RELIST_NS = 30 * 1_000_000_000


@COLLECTORS.register("block")
class Block:
    """Rows of the block table."""

    name = "block"
    table = "block"
    period_s = 1.0

    def __init__(self) -> None:
        self._source: KeptFile | SysfsStats = KeptFile("/proc/diskstats")
        self._context: Context | None = None
        self._devices = BlockDevices(Path("/sys"))
        self._leaves = MountLeaves(Path("/proc"), Path("/sys"), self._devices)
        self._relisted_ns: int | None = None
        self._lines: list[bytes] = []
        self._raw_names: list[bytes] = []
        self._names: list[str | None] = []
        self._counters: dict[str, DiskCounters] = {}
        self._waiting: set[str] = set()
        self._last_mono_ns: int | None = None
        self._restarts: dict[str, int] = {}

    def open(self, context: Context) -> Availability:
        """Read the list of devices; the first counters are read at the first tick."""
        self._context = context
        self._source = _source_of(context)
        self._devices = BlockDevices(context.sys_root)
        self._leaves = MountLeaves(context.proc_root, context.sys_root, self._devices)
        content = self._source.read()
        if content is None:
            return Availability("off", f"{self._source.path} cannot be read")
        self._lay_out(content.split(b"\n"))
        self._leaves.look()
        return self._judge_source(context)

    def collect(self, tick: Tick) -> list[Row]:
        """One row per device that did something since this collector's last tick."""
        self._relist(tick.mono_ns)
        content = self._source.read()
        last_mono_ns, self._last_mono_ns = self._last_mono_ns, tick.mono_ns
        if content is None:
            self._last_mono_ns = None
            self._counters.clear()
            return []
        lines = content.split(b"\n")
        if not self._layout_holds(lines):
            self._lay_out(lines)
        interval_ns = 0 if last_mono_ns is None else tick.mono_ns - last_mono_ns
        return self._rows(lines, tick, interval_ns)

    def facts(self) -> dict[str, object]:
        """Devices, the leaves of each mount, multipath, and how often counters started again."""
        if self._context is not None:
            self._leaves.look(member.pid for member in self._context.members())
        silent = silent_heads(self._counters)
        mounts: dict[str, list[str]] = {}
        for mount, name in self._leaves.device.items():
            mounts.setdefault(name, []).append(mount)
        return {
            "devices": [
                {**device.to_dict(), "mounts": mounts.get(device.name, [])}
                for device in self._devices.known()
            ],
            "leaves": {
                mount: [name for disk in disks for name in silent.get(disk, (disk,))]
                for mount, disks in self._leaves.disks.items()
            },
            "multipath": self._multipath(),
            "restarts": dict(self._restarts),
            "source": self._source.path,
        }

    def close(self) -> None:
        """Give the descriptor back."""
        self._source.close()

    def _multipath(self) -> dict[str, dict[str, object]]:
        return {
            head: {
                "paths": list(names),
                "counted_on": counted_on(
                    self._counters.get(head), [self._counters[name] for name in names]
                ),
            }
            for head, names in paths_by_head(self._counters).items()
        }

    def _relist(self, mono_ns: int) -> None:
        """New devices where they do not come with the one file there is."""
        if isinstance(self._source, SysfsStats) and (
            self._relisted_ns is None or mono_ns - self._relisted_ns >= _RELIST_NS
        ):
            self._relisted_ns = mono_ns
            self._source.relist()

    def _judge_source(self, context: Context) -> Availability:
        cover = _lxcfs_over(context)
        if cover is not None and isinstance(self._source, KeptFile):
            return Availability(
                "partial", f"/proc/diskstats is a file of {cover}, not the kernel's"
            )
        silent = self._silent_leaves()
        if silent:
            return Availability(
                "partial", f"the kernel counts no I/O of {', '.join(silent)} (queue/iostats is 0)"
            )
        if not self._devices.known():
            return Availability("partial", "there is no block device here but RAM disks")
        return Availability("on")

    def _silent_leaves(self) -> list[str]:
        """Devices whose zeros mean "not measured". A stacked one (md is silent by default on some
        systems) is none, for its members count."""
        return [
            device.name
            for device in self._devices.known()
            if not device.counts and not device.slaves and device.role != "partition"
        ]

    def _layout_holds(self, lines: list[bytes]) -> bool:
        """True when every line is about the device it was about at the last tick."""
        return len(lines) == len(self._lines) and all(
            new == old or _raw_name(new) == raw_name
            for new, old, raw_name in zip(lines, self._lines, self._raw_names, strict=True)
        )

    def _lay_out(self, lines: list[bytes]) -> None:
        """Note which line is about which device; None for a line of no interest.

        A device that went away starts anew when it comes back under its name.
        """
        self._raw_names = [_raw_name(line) for line in lines]
        self._lines = [b""] * len(lines)
        gone = self._counters.keys() - {raw_name.decode() for raw_name in self._raw_names}
        for name in gone:
            del self._counters[name]
            self._waiting.discard(name)
            self._devices.forget(name)
        seen: set[str] = set()
        self._names = []
        for raw_name in self._raw_names:
            name = raw_name.decode()
            wanted = bool(name) and name not in seen and self._devices.get(name) is not None
            self._names.append(name if wanted else None)
            seen.add(name)

    def _rows(self, lines: list[bytes], tick: Tick, interval_ns: int) -> list[Row]:
        """Parse the lines that changed or whose device held requests; the others have no row."""
        rows: list[Row] = []
        for name, new, old in zip(self._names, lines, self._lines, strict=True):
            if name is None or (new == old and name not in self._waiting):
                continue
            now = _counters(new)
            if now is not None:
                row = self._row(name, now, tick, interval_ns)
                rows.extend(() if row is None else (row,))
        self._lines = lines
        return rows

    def _row(self, name: str, now: DiskCounters, tick: Tick, interval_ns: int) -> Row | None:
        before, self._counters[name] = self._counters.get(name), now
        waited = name in self._waiting
        (self._waiting.add if requests_waiting(now) else self._waiting.discard)(name)
        if before is None or interval_ns <= 0 or (now == before and not waited):
            return None
        if went_back(before, now):
            self._restarts[name] = self._restarts.get(name, 0) + 1
            return None
        device = self._devices.get(name)
        if device is None:
            return None
        is_partition = device.role == "partition"
        return (
            tick.ts_ns,
            tick.mono_ns,
            interval_ns,
            name,
            device.role,
            device.parent,
            *figures(before, now, interval_ns / 1e9, is_partition),
        )


def _raw_name(line: bytes) -> bytes:
    fields = line.split(None, 3)
    return fields[2] if len(fields) == 4 else b""


def _counters(line: bytes) -> DiskCounters | None:
    try:
        return counters_of(line.split()[3:])
    except ValueError:
        return None


def _source_of(context: Context) -> KeptFile | SysfsStats:
    if _lxcfs_over(context) is not None:
        stats = SysfsStats(context.sys_root)
        if stats.read() is not None:
            return stats
    return KeptFile(context.proc_root / "diskstats")


def _lxcfs_over(context: Context) -> str | None:
    """Type of what is mounted over /proc/diskstats."""
    cover = read_mounts(context.proc_root).at("/proc/diskstats")
    return cover.fstype if cover is not None else None
