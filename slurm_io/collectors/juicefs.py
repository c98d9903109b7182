"""JuiceFS mounts: the counters of the mount's daemon and its requests to the object store.

Source
    MOUNT/.stats every 10 s, read by a child that can be killed or left behind, since it is a file
    of the mount itself.

Columns
    Table ``fsclient``, ``source`` juicefs .stats, stamped with the moment the question was put.
    ``read`` and ``write`` are FUSE requests with their bytes, ``meta`` all the others. ``exe_ms``
    is the daemon's mean time for one; older community editions do not tell it by class and the
    enterprise edition does not at all: null. ``rtt_ms`` of ``read`` (``write``) is the mean time of
    a GET (PUT) to the object store in the interval, of which there may be fewer or more than reads:
    how many stands in meta.json, with the block cache's hits and misses. Requests in flight are in
    the rows of source fuse waiting. Counters are the mount's, not one job's.

Needs
    To be who mounted it, or a mount with allow_other (then any user may read the file). A mount of
    a folder inside the file system does not show the file.

Cost
    One fork every 10 s and one read a mount in it: 5 ms of CPU each time with one mount (children
    included), 9 ms with 10, 15 ms with 32, more than which are not asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Row, Tick
from slurm_io.collectors.client_rows import ClientRows, shown, with_rtt
from slurm_io.filesystems.mount_watch import MountWatch
from slurm_io.filesystems.mounts import Mount

if TYPE_CHECKING:
    from slurm_io.filesystems.juicefs.client import JuiceClient
    from slurm_io.filesystems.juicefs.stats import Edition
    from slurm_io.host.place_probes import PlaceProbes

_TIMEOUT_S = 5.0
_MOST_MOUNTS = 32
_SOURCE = "juicefs .stats"
_UNKNOWN = {
    "errors": "JuiceFS counts failed object requests only, see store_errors",
    "inflight": "in the rows of source fuse waiting",
}


class _Volume:
    """One superblock, with its own readings: a mount that hangs delays no other's."""

    def __init__(self, mount: Mount, client: JuiceClient) -> None:
        self.path = mount.mount_point
        self.mount_point = shown(mount.mount_point)
        self.fstype = shown(mount.fstype)
        self.client = client
        self.restarts = 0
        self.rows = ClientRows()


@COLLECTORS.register("juicefs")
class JuiceFs:
    """Rows of JuiceFS mounts. Called every second, it asks every `probe_period_s`."""

    name = "juicefs"
    table = "fsclient"
    period_s = 1.0
    probe_period_s = 10.0

    def __init__(self) -> None:
        self._watch = MountWatch(Path("/proc"), _is_juicefs)
        self._volumes: dict[str, _Volume] = {}
        self._probes: PlaceProbes | None = None
        self._asked: Tick | None = None

    def open(self, context: Context) -> Availability:
        """Nothing is asked yet: that is for a child, at the first tick."""
        self.close()
        self._asked = None
        self._volumes = {}
        self._probes = None
        self._watch = MountWatch(context.proc_root, _is_juicefs, b"juicefs")
        self._watch.look()
        if not self._watch.mounts:
            self.close()
            return Availability("absent", "no JuiceFS mount here")
        from slurm_io.host.place_probes import PlaceProbes

        self._probes = PlaceProbes(_TIMEOUT_S)
        self._find_volumes()
        return Availability("on")

    def collect(self, tick: Tick) -> list[Row]:
        """Rows of the mounts that have answered since the last tick."""
        probes, asked = self._probes, self._asked
        if probes is None:
            return []
        rows: list[Row] = []
        for key, answer in probes.take().items():
            if asked is not None and key in self._volumes:
                rows += _rows_of(self._volumes[key], asked, *answer)
        if not probes.is_asking and (
            asked is None or tick.mono_ns - asked.mono_ns >= self.probe_period_s * 1e9
        ):
            self._ask(probes, tick)
        return rows

    def facts(self) -> dict[str, object]:
        """Editions, cache hits, object requests, and mounts that did not answer."""
        failures = {} if self._probes is None else self._probes.failures
        return {
            "shared_by": "node",
            "unknown": dict(_UNKNOWN),
            "restarts": {
                each.mount_point: each.client.restarts
                for each in self._volumes.values()
                if each.client.restarts
            },
            "mounts": [
                {"mount": each.mount_point, **each.client.since_start()}
                for each in self._volumes.values()
            ],
            "failures": {
                self._volumes[key].mount_point: dict(failure)
                for key, failure in failures.items()
                if key in self._volumes
            },
        }

    def close(self) -> None:
        """Give the descriptor back, kill the child."""
        self._watch.close()
        if self._probes is not None:
            self._probes.stop()

    def _ask(self, probes: PlaceProbes, tick: Tick) -> None:
        from slurm_io.filesystems.juicefs.read import read_counters

        if self._watch.look(tick.mono_ns):
            self._find_volumes()
        self._asked = tick
        probes.ask({key: (read_counters, (each.path,)) for key, each in self._volumes.items()})

    def _find_volumes(self) -> None:
        from slurm_io.filesystems.juicefs.client import JuiceClient

        found: dict[str, _Volume] = {}
        for mount in self._watch.mounts:
            key = mount.major_minor
            if key not in found and len(found) < _MOST_MOUNTS:
                known = self._volumes.get(key)
                is_same = known is not None and known.path == mount.mount_point
                new = _Volume(mount, JuiceClient())
                found[key] = known if known is not None and is_same else new
        self._volumes = found


def _is_juicefs(mount: Mount) -> bool:
    return mount.fstype == "fuse.juicefs"


def _rows_of(
    volume: _Volume, asked: Tick, edition: Edition, values: dict[str, float], damaged: int
) -> list[Row]:
    from slurm_io.filesystems.juicefs.stats import JuiceStats

    readings = volume.client.take(JuiceStats(edition, values, damaged))
    if volume.client.restarts != volume.restarts:
        volume.restarts = volume.client.restarts
        volume.rows.forget(volume.mount_point)
    volume.rows.begin(asked)
    rows = []
    for op_class, reading in readings.items():
        row = volume.rows.row(
            volume.mount_point, volume.fstype, _SOURCE, op_class, reading.counters
        )
        if row is not None:
            rows.append(with_rtt(row, reading.store_ms))
    return rows
