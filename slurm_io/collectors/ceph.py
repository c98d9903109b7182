"""CephFS mounts of the kernel's client: operations, bytes, times, requests in flight.

Source
    debugfs, /sys/kernel/debug/ceph/FSID.clientN/: metrics (one file, or a folder with latency and
    size), osdc, mdsc; one read each a tick.

Columns
    Table ``fsclient``, ``source`` ceph debugfs. ``read`` and ``write`` are requests to the data
    servers, ``meta`` those to the metadata servers and server-side copies. What the page cache or a
    capability answers is no operation. ``exe_ms`` is the mean time of those completed. Ceph shows
    means since the mount was made, in whole µs: when the rounding may be more than a fifth of the
    second's mean it is null, and meta.json has the mean since the sampler began. ``bytes`` need
    kernel 5.10 or so and are null for ``meta``. ``inflight`` are requests not answered: with a hung
    server it stays above 0 while ``ops`` are 0. Ceph tells neither ``rtt_ms`` nor ``queue_ms``.
    Counters are the node's, not one job's. Block devices (rbd) are in the ``block`` table.

Needs
    Root and a mounted debugfs; kernel 5.7 for metrics. With several mounts which folder belongs to
    which is asked of the mounts themselves (virtual attributes, kernel 5.9), in a child.

Cost
    Four reads a mount and a parse when something changed: 0.2 ms of CPU a tick with one mount at
    work, 0.06 ms when it is idle, 0.8 ms with 10 at work. No more than 16 mounts are looked at in a
    tick (1.3 ms): of 100 each has its turn every seventh, which its interval says.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Row, Tick
from slurm_io.collectors.client_rows import ClientRows, mount_points, shown, with_exe
from slurm_io.filesystems.mount_watch import MountWatch
from slurm_io.filesystems.mounts import Mount
from slurm_io.host.kept import KeptFile

if TYPE_CHECKING:
    from slurm_io.filesystems.ceph.client import CephClient
    from slurm_io.host.place_probes import PlaceProbes

_TIMEOUT_S = 5.0
_MOST_A_TICK = 16
_SOURCE = "ceph debugfs"
_UNKNOWN = {
    "rtt_ms": "Ceph's client times a request as a whole: exe_ms",
    "errors": "Ceph's client counts no failed operations",
}


class _Client:
    """One folder of debugfs, and the superblock it belongs to (None: not known yet)."""

    def __init__(self, folder: Path, client: CephClient) -> None:
        self.client = client
        self.rows = ClientRows()
        self.major_minor: str | None = None
        metrics = folder / "metrics"
        names = ("latency", "size") if metrics.is_dir() else ()
        self.metrics = [KeptFile(metrics / name) for name in names] or [KeptFile(metrics)]
        self.osdc = KeptFile(folder / "osdc")
        self.mdsc = KeptFile(folder / "mdsc")
        self.last: tuple[bytes, bytes | None, bytes | None] | None = None
        self.owes = False
        self.damaged = 0

    def read(self) -> tuple[bytes, bytes | None, bytes | None] | None:
        """Metrics, osdc, mdsc; None when the client is gone."""
        parts = [file.read() for file in self.metrics]
        known = [part for part in parts if part is not None]
        return (b"\n".join(known), self.osdc.read(), self.mdsc.read()) if known else None

    def close(self) -> None:
        """Give the descriptors back."""
        for file in (*self.metrics, self.osdc, self.mdsc):
            file.close()


@COLLECTORS.register("ceph")
class Ceph:
    """Rows of CephFS mounts."""

    name = "ceph"
    table = "fsclient"
    period_s = 1.0

    def __init__(self) -> None:
        self._watch = MountWatch(Path("/proc"), _is_ceph)
        self._root = Path("/sys/kernel/debug/ceph")
        self._turn = 0
        self._clients: dict[str, _Client] = {}
        self._probes: PlaceProbes | None = None

    def open(self, context: Context) -> Availability:
        """Without a CephFS mount the parser is not even loaded."""
        self.close()
        self._root = context.sys_root / "kernel" / "debug" / "ceph"
        self._watch = MountWatch(context.proc_root, _is_ceph, b" - ceph ")
        self._clients = {}
        self._probes = None
        self._watch.look()
        if not self._watch.mounts:
            self.close()
            return Availability("absent", "no CephFS mount here")
        from slurm_io.filesystems.ceph.debugfs import client_folders
        from slurm_io.host.place_probes import PlaceProbes

        if client_folders(self._root) is None:
            self.close()
            return Availability(
                "off", f"{self._root} cannot be listed: needs root and a mounted debugfs"
            )
        self._probes = PlaceProbes(_TIMEOUT_S)
        self._find_clients()
        if not self._clients:
            return Availability("partial", f"no metrics in {self._root}: needs kernel 5.7 or newer")
        return Availability("on")

    def collect(self, tick: Tick) -> list[Row]:
        """Rows of the mounts that did something or wait for an answer."""
        if self._probes is None:
            return []
        if self._watch.look(tick.mono_ns):
            self._find_clients()
        for device, folder in self._probes.take().items():
            if folder in self._clients:
                self._clients[folder].major_minor = device
        stride = -(-len(self._clients) // _MOST_A_TICK) or 1
        self._turn = (self._turn + 1) % stride
        turn = list(self._clients.values())[self._turn :: stride]
        return [row for client in turn for row in self._rows_of(client, tick)]

    def facts(self) -> dict[str, object]:
        """Folders and their mounts, mean times since the start."""
        failures = {} if self._probes is None else self._probes.failures
        return {
            "shared_by": "node",
            "mounts": mount_points(self._watch.mounts),
            "restarts": {
                mount: count
                for client in self._clients.values()
                for mount, count in client.rows.restarts.items()
            },
            "unknown": dict(_UNKNOWN),
            "clients": [
                {
                    "client": name,
                    "mount": self._mount_of(client),
                    "means_since_start_ms": client.client.means_since_start_ms(),
                    "intervals_with_times": client.client.known,
                    "intervals_too_coarse": client.client.too_coarse,
                    "lines_not_understood": client.damaged,
                }
                for name, client in self._clients.items()
            ],
            "failures": {place: dict(failure) for place, failure in failures.items()},
        }

    def close(self) -> None:
        """Give the descriptors back, kill the child."""
        self._watch.close()
        for client in self._clients.values():
            client.close()
        if self._probes is not None:
            self._probes.stop()

    def _find_clients(self) -> None:
        """Folders that came and went; whose each is, where there is more than one."""
        from slurm_io.filesystems.ceph.client import CephClient
        from slurm_io.filesystems.ceph.debugfs import ask_client, client_folders

        names = set(client_folders(self._root) or ())
        for gone in self._clients.keys() - names:
            self._clients.pop(gone).close()
        for name in sorted(names - self._clients.keys()):
            self._clients[name] = _Client(self._root / name, CephClient())
        devices = {mount.major_minor: mount.mount_point for mount in self._watch.mounts}
        if len(devices) == 1 and len(self._clients) == 1:
            (device,), (client,) = devices, self._clients.values()
            client.major_minor = device
        elif self._probes is not None:
            known = {client.major_minor for client in self._clients.values()}
            self._probes.ask(
                {
                    device: (ask_client, (mount_point,))
                    for device, mount_point in devices.items()
                    if device not in known
                }
            )

    def _mount_of(self, client: _Client) -> str | None:
        for mount in self._watch.mounts:
            if mount.major_minor == client.major_minor:
                return shown(mount.mount_point)
        return None

    def _rows_of(self, client: _Client, tick: Tick) -> list[Row]:
        mount = self._mount_of(client)
        read = client.read()
        if read is None or mount is None:
            client.rows = ClientRows()
            client.last = None
            return []
        client.rows.begin(tick)
        if read == client.last and not client.owes:
            return []
        from slurm_io.filesystems.ceph.metrics import parse_metrics
        from slurm_io.filesystems.ceph.requests import parse_mdsc, parse_osdc

        data, metadata = (
            None if content is None else content.decode("utf-8", "replace") for content in read[1:]
        )
        osd = None if data is None else parse_osdc(data)
        mds = None if metadata is None else parse_mdsc(metadata)
        metrics = parse_metrics(read[0].decode("utf-8", "replace"))
        client.damaged = metrics.damaged
        client.last = read
        readings = client.client.take(metrics, osd, mds)
        client.owes = any(each.counters.inflight for each in readings.values())
        rows = []
        for op_class, reading in readings.items():
            row = client.rows.row(mount, "ceph", _SOURCE, op_class, reading.counters)
            if row is not None:
                rows.append(with_exe(row, reading.exe_ms))
        return rows


def _is_ceph(mount: Mount) -> bool:
    return mount.fstype == "ceph"
