"""Weka's client on this node: operations, their times, and whether its front end is there.

Source
    /proc/wekafs/stat and /proc/wekafs/interface, or those below /proc/wekafs/CONTAINER/, one read
    each a tick. No server is asked.

Columns
    Table ``fsclient``, ``source`` wekafs. ``read`` and ``write`` with their jumbo forms; ``any`` is
    ioctl, as which GPUDirect Storage reads and writes come; ``meta`` all others but keepalive and
    SG_allocate (a step of a write). ``rtt_ms`` is the time outside the kernel (front end, network,
    servers), ``exe_ms`` that and the driver's own. Weka shows means since its driver was loaded, in
    whole µs: after many millions of operations those of a single second are lost in the rounding.
    Then both are null, and meta.json has the mean since the sampler began. ``bytes`` and
    ``inflight`` are not shown by Weka. One counter serves all mounts of a container: with several
    file systems mounted, ``mount`` is ``*``. Counters are the node's, not one job's.

Needs
    Nothing. Versions that show only /proc/wekafs/CONTAINER/queue, whose form is not public, leave
    this source off.

Cost
    Two reads and a parse of the lines that changed: 0.2 ms of CPU a tick while operations run,
    0.05 ms otherwise; with 1, 10 and 100 mounts alike.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Row, Tick
from slurm_io.collectors.client_rows import ClientRows, mount_points, shown, with_exe, with_rtt
from slurm_io.filesystems.mount_watch import MountWatch
from slurm_io.filesystems.mounts import Mount
from slurm_io.host.kept import KeptFile

if TYPE_CHECKING:
    from slurm_io.filesystems.weka.client import WekaClient
    from slurm_io.filesystems.weka.interface import WekaInterface
    from slurm_io.filesystems.weka.stat import WekaStat

_FSTYPE = "wekafs"
_ALL = "*"
_UNKNOWN = {
    "bytes": "Weka's client counts no bytes by operation",
    "inflight": "Weka's client does not show requests in flight",
}


class _Container:
    """One set of counters: the whole client, or one container of several."""

    def __init__(self, name: str | None, folder: Path, client: WekaClient) -> None:
        self.name = name
        self.owner = name or "all containers"
        self.client = client
        self.stat = KeptFile(folder / "stat")
        self.stat_content = b""
        self.last: WekaStat | None = None
        self.interface = KeptFile(folder / "interface")
        self.interface_content = b""
        self.shown: WekaInterface | None = None
        self.first_errors: dict[str, int] | None = None
        self.damaged = 0
        self.cut_off_ticks = 0
        self.cut_off_ts_ns: list[int] = []


@COLLECTORS.register("weka")
class Weka:
    """Rows of Weka's client."""

    name = "weka"
    table = "fsclient"
    period_s = 1.0

    def __init__(self) -> None:
        self._watch = MountWatch(Path("/proc"), _is_weka)
        self._rows = ClientRows()
        self._containers: list[_Container] = []

    def open(self, context: Context) -> Availability:
        """Without a Weka mount the parser is not even loaded."""
        self.close()
        self._watch = MountWatch(context.proc_root, _is_weka, f" - {_FSTYPE} ".encode())
        self._rows = ClientRows()
        self._containers = []
        self._watch.look()
        if not self._watch.mounts:
            self.close()
            return Availability("absent", "no Weka mount here")
        from slurm_io.filesystems.weka.client import WekaClient

        self._containers = [
            _Container(name, folder, WekaClient())
            for name, folder in _folders(context.proc_root / "wekafs")
        ]
        if not self._containers:
            self.close()
            return Availability(
                "off",
                "neither /proc/wekafs/stat nor /proc/wekafs/CONTAINER/stat can be read: this "
                "version of Weka's client does not show its counters there",
            )
        return Availability("on")

    def collect(self, tick: Tick) -> list[Row]:
        """Rows of the classes that did something."""
        if not self._containers:
            return []
        self._watch.look(tick.mono_ns)
        self._rows.begin(tick)
        rows = []
        for container in self._containers:
            self._look_at_interface(container, tick)
            rows += self._rows_of(container)
        return rows

    def facts(self) -> dict[str, object]:
        """Front ends, error counters that moved, mean times since the start."""
        return {
            "shared_by": "node",
            "mounts": mount_points(self._watch.mounts),
            "restarts": dict(self._rows.restarts),
            "unknown": dict(_UNKNOWN),
            "containers": [_facts_of(container) for container in self._containers],
        }

    def close(self) -> None:
        """Give the descriptors back."""
        self._watch.close()
        for container in self._containers:
            container.stat.close()
            container.interface.close()

    def _rows_of(self, container: _Container) -> list[Row]:
        content = container.stat.read()
        if content is None:
            self._rows.forget(container.owner)
            return []
        if content == container.stat_content:
            return []  # nothing was done, and what is in flight is not shown
        from slurm_io.filesystems.weka.stat import parse_stat

        container.stat_content = content
        container.last = stat = parse_stat(content.decode("utf-8", "replace"), container.last)
        container.damaged = stat.damaged
        mount = self._mount_of(container)
        rows = []
        for op_class, reading in container.client.take(stat).items():
            row = self._rows.row(
                mount, _FSTYPE, "wekafs", op_class, reading.counters, owner=container.owner
            )
            if row is not None:
                rows.append(with_exe(with_rtt(row, reading.rtt_ms), reading.exe_ms))
        return rows

    def _mount_of(self, container: _Container) -> str:
        """The mount point whose counters these are; ``*`` for several file systems' together."""
        mounts = [
            mount
            for mount in self._watch.mounts
            if container.name is None or mount.option("container_name") in (None, container.name)
        ]
        if len({mount.major_minor for mount in mounts}) != 1:
            return _ALL
        return shown(mounts[0].mount_point)

    def _look_at_interface(self, container: _Container, tick: Tick) -> None:
        content = container.interface.read()
        if content is not None and content != container.interface_content:
            from slurm_io.filesystems.weka.interface import parse_interface

            container.interface_content = content
            container.shown = parse_interface(content.decode("utf-8", "replace"))
            if container.first_errors is None:
                container.first_errors = container.shown.errors
        if content is not None and container.shown is not None and container.shown.is_cut_off:
            container.cut_off_ticks += 1
            container.cut_off_ts_ns = [*container.cut_off_ts_ns[:1], tick.ts_ns]


def _is_weka(mount: Mount) -> bool:
    return mount.fstype == _FSTYPE


def _folders(root: Path) -> list[tuple[str | None, Path]]:
    """The folder of the whole client, or those of its containers (each has a ``stat``)."""
    if os.access(root / "stat", os.R_OK):
        return [(None, root)]
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return []
    return [(name, root / name) for name in names if os.access(root / name / "stat", os.R_OK)]


def _facts_of(container: _Container) -> dict[str, object]:
    client, interface = container.client, container.shown
    facts: dict[str, object] = {
        "container": container.name,
        "means_since_start_ms": client.means_since_start_ms(),
        "longest_ms": client.new_longest_ms(),
        "intervals_with_times": client.known,
        "intervals_too_coarse": client.too_coarse,
        "lines_not_understood": container.damaged,
        "front_end_missing_ticks": container.cut_off_ticks,
        "front_end_missing_ts_ns": list(container.cut_off_ts_ns),
    }
    if interface is not None:
        before = container.first_errors or {}
        facts["driver_state"] = interface.driver_state
        facts["front_ends"] = [
            {"container": each.container, "connected": each.connected, "state": each.state}
            for each in interface.front_ends
        ]
        facts["errors"] = {
            name: number - before.get(name, 0)
            for name, number in interface.errors.items()
            if number > before.get(name, 0)
        }
    return facts
