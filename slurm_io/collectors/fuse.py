"""FUSE mounts of every kind: requests their daemon has not answered yet.

Source
    /sys/fs/fuse/connections/N/waiting, one read a mount and tick; mountinfo every 30 s. The daemon
    is not asked.

Columns
    Table ``fsclient``, ``source`` fuse waiting, ``op_class`` any: the kernel counts reads, writes,
    lookups and all others in one number, readahead that nobody waits for included. ``inflight`` is
    that number at the moment of the row; all else is null. A constantly high number means that the
    daemon, or the object store behind it, is slow. No row when nothing waits. Mounts of one
    superblock have one row, under the first. JuiceFS mounts have rows with counters besides.

Needs
    The fusectl file system on /sys/fs/fuse/connections (systemd mounts it). The file is readable by
    root and by who mounted the file system; others' mounts are named in meta.json.

Cost
    One read a mount: 0.1 ms of CPU a tick with one mount, 0.2 ms with 10, 0.6 ms with 64, more
    than which are not watched.
"""

from __future__ import annotations

from pathlib import Path

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Row, Tick
from slurm_io.collectors.client_rows import ClientRows, shown
from slurm_io.filesystems.client_counters import ClientCounters
from slurm_io.filesystems.mount_watch import MountWatch
from slurm_io.filesystems.mounts import Mount

_MOST_MOUNTS = 64
_SOURCE = "fuse waiting"
_UNKNOWN = {
    "ops": "the kernel counts no FUSE requests, it only shows how many wait",
    "bytes": "as ops; bytes of the daemon are in its /proc/PID/io",
}
_HELP = "mount -t fusectl fusectl /sys/fs/fuse/connections (as root)"


class _Connection:
    """One FUSE superblock and its file."""

    def __init__(self, mount: Mount, path: str) -> None:
        self.mount_point = shown(mount.mount_point)
        self.fstype = shown(mount.fstype)
        self.source = shown(mount.source)
        self.path = path
        self.others: list[str] = []
        self.most = 0

    def note_other(self, mount: Mount) -> None:
        """Where else it is mounted."""
        if len(self.others) < _MOST_MOUNTS:
            self.others.append(shown(mount.mount_point))


@COLLECTORS.register("fuse")
class Fuse:
    """Rows of FUSE mounts with requests that wait."""

    name = "fuse"
    table = "fsclient"
    period_s = 1.0

    def __init__(self) -> None:
        self._root = Path("/sys/fs/fuse/connections")
        self._watch = MountWatch(Path("/proc"), _is_fuse)
        self._rows = ClientRows()
        self._connections: dict[tuple[int, str], _Connection] = {}
        self._refused: dict[str, str] = {}
        self._left_out = 0

    def open(self, context: Context) -> Availability:
        """Which mounts there are and whether any may be looked at."""
        self.close()
        self._rows = ClientRows()
        self._connections = {}
        self._root = context.sys_root / "fs" / "fuse" / "connections"
        self._watch = MountWatch(context.proc_root, _is_fuse, b" - fuse", b" - virtiofs ")
        self._watch.look()
        if not self._watch.mounts:
            self.close()
            return Availability("absent", "no FUSE mount here")
        self._find_connections()
        if self._connections:
            return Availability("partial" if self._refused else "on", _refusal(self._refused))
        self.close()
        return Availability("off", _refusal(self._refused))

    def collect(self, tick: Tick) -> list[Row]:
        """A row for each mount whose daemon owes answers."""
        if self._watch.look(tick.mono_ns):
            self._find_connections()
        self._rows.begin(tick)
        rows = (self._row_of(key, each) for key, each in self._connections.items())
        return [row for row in rows if row is not None]

    def facts(self) -> dict[str, object]:
        """Mounts, the most that waited at once, and those that could not be looked at."""
        return {
            "shared_by": "node",
            "unknown": dict(_UNKNOWN),
            "mounts": [
                {
                    "mount": each.mount_point,
                    "fstype": each.fstype,
                    "source": each.source,
                    "also_at": list(each.others),
                    "most_waiting": each.most,
                }
                for each in self._connections.values()
            ],
            "refused": dict(self._refused),
            "left_out": self._left_out,
        }

    def close(self) -> None:
        """Give the descriptor back."""
        self._watch.close()

    def _find_connections(self) -> None:
        """One for each superblock; a mount made anew is another one."""
        found: dict[tuple[int, str], _Connection] = {}
        by_device: dict[str, _Connection] = {}
        self._refused = {}
        self._left_out = 0
        for mount in self._watch.mounts:
            if mount.major_minor in by_device:
                by_device[mount.major_minor].note_other(mount)
                continue
            key = (mount.mount_id, mount.major_minor)
            each = self._connections.pop(key, None) or self._connect(mount)
            if each is None:
                continue
            each.others = []
            if len(found) >= _MOST_MOUNTS:
                self._left_out += 1
                continue
            found[key] = by_device[mount.major_minor] = each
        for gone in self._connections:
            self._rows.forget(gone)
        self._connections = found

    def _connect(self, mount: Mount) -> _Connection | None:
        from slurm_io.filesystems.fuse_connections import connection_number, read_waiting

        number = connection_number(mount.major_minor)
        each = _Connection(mount, str(self._root / str(number) / "waiting"))
        try:
            read_waiting(each.path)
        except OSError as error:
            if len(self._refused) < _MOST_MOUNTS:
                self._refused[each.mount_point] = _why(error, self._root)
            return None
        return each

    def _row_of(self, key: tuple[int, str], each: _Connection) -> Row | None:
        from slurm_io.filesystems.fuse_connections import parse_waiting, read_waiting

        try:
            waiting = parse_waiting(read_waiting(each.path))
        except OSError:
            waiting = None
        if waiting is None:
            self._rows.forget(key)
            return None
        each.most = max(each.most, waiting)
        return self._rows.row(
            each.mount_point,
            each.fstype,
            _SOURCE,
            "any",
            ClientCounters(inflight=waiting),
            owner=key,
        )


def _is_fuse(mount: Mount) -> bool:
    return mount.kind == "fuse" or mount.fstype == "fuseblk"


def _why(error: OSError, root: Path) -> str:
    if isinstance(error, PermissionError):
        return "only root and who mounted it may read the connection"
    return f"{root} does not show it: {_HELP}"


def _refusal(refused: dict[str, str]) -> str:
    if not refused:
        return ""
    mount, reason = next(iter(refused.items()))
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    return f"{mount}{more}: {reason}"
