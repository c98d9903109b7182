"""Space and inodes of the mounts the job uses.

Source
    statvfs of each mount, in a child that can be killed or left behind: a dead NFS or Lustre
    server lets statvfs hang for ever. The child is started at one tick and its answers are taken
    at later ones, so no tick waits for a server.

Columns
    Table ``capacity``, a row per mount every 30 s, stamped with the moment the question was put.
    A mount that does not answer has no row; how often, and why, stands in meta.json. Numbers a
    file system does not give are null.

Needs
    Search permission on the mount point.

Cost
    One fork every 30 s (about 2 ms of CPU, the child's included); next to nothing at the ticks
    between.
"""

from __future__ import annotations

from collections.abc import Sequence

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Row, Tick
from slurm_io.filesystems.capacity import capacity_of, read_statvfs
from slurm_io.filesystems.mounts import MountTable, read_mounts
from slurm_io.host.place_probes import PlaceProbes

_TIMEOUT_S = 5.0
_MOST_STUCK = 32  # as many as the sampler names: mounts that hang never silence the others


@COLLECTORS.register("capacity")
class CapacityOfMounts:
    """Rows of the capacity table. Called every second, it asks every `probe_period_s`."""

    name = "capacity"
    table = "capacity"
    period_s = 1.0
    probe_period_s = 30.0

    def __init__(self) -> None:
        self._context: Context | None = None
        self._mounts = MountTable(())
        self._asked: Tick | None = None
        self._probes = PlaceProbes(_TIMEOUT_S, _MOST_STUCK)

    def open(self, context: Context) -> Availability:
        """Nothing is asked yet: the mounts may change before the first tick."""
        self._context = context
        if not context.capacity_mounts():
            return Availability("partial", "no mount to watch is known yet")
        return Availability("on")

    def collect(self, tick: Tick) -> list[Row]:
        """Rows of the mounts that have answered since the last tick."""
        rows = [self._row(mount, value) for mount, value in self._probes.take().items()]
        if not self._probes.is_asking and self._is_due(tick):
            self._ask(tick)
        return rows

    def facts(self) -> dict[str, object]:
        """Mounts that gave no answer: how often, the last reason, a child left behind."""
        return {"failures": {mount: dict(fact) for mount, fact in self._probes.failures.items()}}

    def close(self) -> None:
        """Kill the child, if one is asking."""
        self._probes.stop()

    def _is_due(self, tick: Tick) -> bool:
        return self._asked is None or (
            tick.mono_ns - self._asked.mono_ns >= self.probe_period_s * 1e9
        )

    def _ask(self, tick: Tick) -> None:
        if self._context is None:
            return
        self._mounts = read_mounts(self._context.proc_root)
        self._asked = tick
        wanted = self._context.capacity_mounts()
        self._probes.ask({mount: (read_statvfs, (mount,)) for mount in wanted})

    def _row(self, mount: str, statvfs: Sequence[int]) -> Row:
        assert self._asked is not None
        found = self._mounts.of_path(mount)
        return (
            self._asked.ts_ns,
            self._asked.mono_ns,
            mount,
            found.fstype if found is not None else "unknown",
            *capacity_of(statvfs),
        )
