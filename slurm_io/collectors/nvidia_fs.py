"""GPUDirect Storage (nvidia-fs): what moved between storage and GPU memory past the page cache.

Source
    /proc/driver/nvidia-fs/stats, one read a tick.

Columns
    Table ``fsclient``, ``source`` nvidia-fs, ``fstype`` nvidia-fs, ``mount`` ``*``: the driver does
    not tell file systems apart. ``ops`` are those that ended, failed ones (``errors``) included;
    ``bytes`` come in whole MiB; ``inflight`` those that run. ``exe_ms`` is the driver's own mean
    over its last second with I/O, given when both this interval and the one before had I/O.
    GPUDirect I/O of Weka and GPFS never shows here (Weka's is class any of source wekafs). Counters
    are the node's, not one job's, and root may clear them: no row for that interval.

Needs
    The driver's parameter rw_stats_enabled, which is off as NVIDIA delivers it; without it this
    source is off as soon as a process uses GPUDirect Storage.

Cost
    One read of about 1 KiB and a parse: 0.2 ms of CPU a tick, whatever is mounted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Row, Tick
from slurm_io.collectors.client_rows import ClientRows, with_exe
from slurm_io.filesystems.client_counters import ClientCounters, OpClass
from slurm_io.host.kept import KeptFile

if TYPE_CHECKING:
    from slurm_io.filesystems.nvidia_fs import GdsOperations

_NAME = "nvidia-fs"
_SWITCH = "/sys/module/nvidia_fs/parameters/rw_stats_enabled"
_US_PER_MS = 1000


@COLLECTORS.register("nvidia_fs")
class NvidiaFs:
    """Rows of GPUDirect Storage."""

    name = "nvidia_fs"
    table = "fsclient"
    period_s = 1.0

    def __init__(self) -> None:
        self._source = KeptFile(Path("/proc/driver/nvidia-fs/stats"))
        self._rows = ClientRows()
        self._driver: str | None = None
        self._is_open = False
        self._busy: set[OpClass] = set()
        self._last_ops: dict[OpClass, int] = {}
        self._no_counts_ticks = 0

    def open(self, context: Context) -> Availability:
        """Off with the reason where the driver is there and does not count."""
        self.close()
        self._rows = ClientRows()
        self._source = KeptFile(context.proc_root / "driver" / "nvidia-fs" / "stats")
        content = self._source.read()
        if content is None:
            return Availability("absent", "the driver nvidia-fs is not loaded")
        from slurm_io.filesystems.nvidia_fs import parse_stats

        stats = parse_stats(content.decode("utf-8", "replace"))
        self._driver = stats.driver
        if stats.counts_io:
            self._is_open = True
            return Availability("on")
        self.close()
        if not stats.processes:
            return Availability("absent", "no process uses GPUDirect Storage, nor is it counted")
        return Availability(
            "off", f"nvidia-fs counts no I/O (IO stats: Disabled): as root, echo 1 > {_SWITCH}"
        )

    def collect(self, tick: Tick) -> list[Row]:
        """Rows of reads and writes that ended or run."""
        content = self._source.read() if self._is_open else None
        if content is None:
            return []
        from slurm_io.filesystems.nvidia_fs import parse_stats

        stats = parse_stats(content.decode("utf-8", "replace"))
        self._rows.begin(tick)
        if not stats.counts_io:
            self._no_counts_ticks += 1
            self._rows.forget(_NAME)
            self._last_ops.clear()
            return []
        both: dict[OpClass, GdsOperations] = {"read": stats.reads, "write": stats.writes}
        rows = (self._row_of(op_class, each) for op_class, each in both.items())
        return [row for row in rows if row is not None]

    def facts(self) -> dict[str, object]:
        """Version of the driver, restarts, ticks in which its counting was switched off."""
        return {
            "shared_by": "node",
            "driver": self._driver,
            "restarts": dict(self._rows.restarts),
            "ticks_without_counts": self._no_counts_ticks,
            "unknown": {"rtt_ms": "the driver times an operation as a whole: exe_ms"},
        }

    def close(self) -> None:
        """Give the descriptor back."""
        self._source.close()
        self._is_open = False

    def _row_of(self, op_class: OpClass, each: GdsOperations) -> Row | None:
        if each.completed is None:
            return None
        ended = each.completed + (each.errors or 0)
        before = self._last_ops.get(op_class)
        self._last_ops[op_class] = ended
        was_busy = op_class in self._busy
        is_busy = before is not None and ended > before
        (self._busy.add if is_busy else self._busy.discard)(op_class)
        now = ClientCounters(
            ops=ended, bytes=each.bytes, errors=each.errors, inflight=each.inflight
        )
        row = self._rows.row("*", _NAME, _NAME, op_class, now, owner=_NAME)
        if row is None or not (was_busy and is_busy) or each.mean_us is None:
            return row
        return with_exe(row, each.mean_us / _US_PER_MS)
