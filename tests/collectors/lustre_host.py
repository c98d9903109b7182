"""A made-up Lustre client in a folder: files where a version has them, counters that move."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from slurm_io.collectors.lustre import Lustre
from tests.collectors.fake_host import context, rows_at, write_tree

Version = Literal["2.10", "2.15", "2.17"]

HEX = "ffff88105db50000"
OTHER_HEX = "ffff88105db59999"

_PROC, _DEBUG, _SYS = "proc/fs/lustre", "sys/kernel/debug/lustre", "sys/fs/lustre"
_PLACES: dict[Version, dict[str, str]] = {
    "2.10": {"stats": _PROC, "import": _PROC, "value": _PROC},
    "2.15": {"stats": _DEBUG, "import": _PROC, "value": _SYS},
    "2.17": {"stats": _DEBUG, "import": _DEBUG, "value": _SYS},
}
_KINDS = {"import": "import", "state": "import", "rpc_stats": "import", "stats": "stats",
          "read_ahead_stats": "stats", "max_cached_mb": "stats"}  # fmt: skip


def lines(counters: dict[str, str], unit_of_times: str = "usecs") -> str:
    """A stats file: ``{"open": "3 regs", "read": "2 usecs 1 9 20 200"}``."""
    text = "snapshot_time             1700000000.5 secs.nsecs\n"
    for name, value in counters.items():
        samples, unit, *numbers = value.split()
        text += f"{name:<25} {samples} samples [{unit}] {' '.join(numbers)}".rstrip() + "\n"
    return text


def osc_stats(reads: int = 0, mib: int = 0, us: int = 0, pings: int = 0, others: int = 0) -> str:
    """Reads with their size and time, pings, and RPCs that have no line (lock enqueues)."""
    waited = f"{reads + pings + others} usec 1 9 {us + 100 * pings + 50 * others} 1"
    return lines(
        {
            "req_waittime": waited,
            "req_active": f"{reads + pings + others} reqs 1 9 {3 * (reads + pings + others)} 1",
            "read_bytes": f"{reads} bytes 1 1 {mib << 20} 1",
            "ost_read": f"{reads} usec 1 9 {us} 1",
            "obd_ping": f"{pings} usec 1 9 {100 * pings} 1",
        }
    )


def import_text(state: str = "FULL", inflight: int = 0, attempts: int = 1) -> str:
    """An ``import`` file, abridged."""
    return (
        f"import:\n    name: x\n    state: {state}\n    connection:\n"
        f"       connection_attempts: {attempts}\n       generation: 1\n"
        f"    rpcs:\n       inflight: {inflight}\n       timeouts: 0\n"
    )


def rpc_stats(reading: int = 0, writing: int = 0, read_rpcs: int = 0) -> str:
    """An ``rpc_stats`` file, abridged to one table."""
    return (
        f"snapshot_time:         1.5 (secs.nsecs)\nread RPCs in flight:  {reading}\n"
        f"write RPCs in flight: {writing}\npending write pages:  0\npending read pages:   0\n\n"
        "\t\t\tread\t\t\twrite\n"
        "pages per rpc         rpcs   % cum % |       rpcs   % cum %\n"
        f"1:\t\t{read_rpcs // 2}   0   0   |   0   0   0\n"
        f"2:\t\t{read_rpcs - read_rpcs // 2}   0   0   |   0   0   0\n"
    )


class LustreHost:
    """One fake host. `osts` and one MDT per file system; write files, then tick."""

    def __init__(self, root: Path, version: Version = "2.15", osts: int = 2) -> None:
        self.root = root
        self.version: Version = version
        self.osts = osts
        self.lustre = Lustre()
        self.mounts: list[tuple[str, str]] = []

    def mount(self, point: str = "/lustre", fsname: str = "lustrefs", digits: str = HEX) -> None:
        """One more mount with all its files, counters at zero."""
        self.mounts.append((point, fsname))
        self.write_mountinfo()
        self.llite({}, fsname, digits)
        for track in ("pid", "ppid", "gid"):
            self.file(f"llite/{fsname}-{digits}/stats_track_{track}", "0 (all)\n")
        for number in range(self.osts):
            self.ost(number, osc_stats(), import_text(), rpc_stats(), fsname, digits)
            self.file(f"osc/{osc(number, fsname, digits)}/max_rpcs_in_flight", "8\n")
        self.mdt(osc_stats(), import_text(), fsname, digits)

    def write_mountinfo(self) -> None:
        """mountinfo of all mounts; all of one file system have one device number."""
        text = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        for place, (point, fsname) in enumerate(self.mounts):
            text += f"{50 + place} 1 0:44 / {point} rw - lustre 192.0.2.1@tcp:/{fsname} rw,flock\n"
        write_tree(self.root, {"proc/self/mountinfo": text})

    def file(self, relative: str, text: str) -> Path:
        """Write one file where this version has it."""
        kind = _KINDS.get(relative.rpartition("/")[2], "value")
        name = f"{_PLACES[self.version][kind]}/{relative}"
        write_tree(self.root, {name: text})
        # every folder's name is in sysfs from 2.12 on
        if self.version != "2.10":
            (self.root / _SYS / relative).parent.mkdir(parents=True, exist_ok=True)
        return self.root / name

    def llite(self, counters: dict[str, str], fsname: str = "lustrefs", digits: str = HEX) -> None:
        """The application's counters of one mount."""
        self.file(f"llite/{fsname}-{digits}/stats", lines(counters))

    def ost(
        self,
        number: int,
        stats: str | None = None,
        state: str | None = None,
        rpcs: str | None = None,
        fsname: str = "lustrefs",
        digits: str = HEX,
    ) -> None:
        """Files of one OST's connection; None leaves one as it is."""
        folder = f"osc/{osc(number, fsname, digits)}"
        for name, text in (("stats", stats), ("import", state), ("rpc_stats", rpcs)):
            if text is not None:
                self.file(f"{folder}/{name}", text)

    def mdt(
        self,
        stats: str | None = None,
        state: str | None = None,
        fsname: str = "lustrefs",
        digits: str = HEX,
    ) -> None:
        """Files of the MDT's connection."""
        folder = f"mdc/{fsname}-MDT0000-mdc-{digits}"
        for name, text in (("stats", stats), ("import", state)):
            if text is not None:
                self.file(f"{folder}/{name}", text)

    def open(self) -> Any:
        """Open the collector."""
        return self.lustre.open(context(self.root))

    def rows(self, second: float) -> dict[tuple[str, str, str], dict[str, Any]]:
        """Rows of one tick by (mount, source, class)."""
        rows = rows_at(self.lustre, second)
        found = {(row["mount"], row["source"], row["op_class"]): row for row in rows}
        assert len(found) == len(rows)
        return found


def osc(number: int, fsname: str = "lustrefs", digits: str = HEX) -> str:
    """Name of an OST's connection; targets count in hex."""
    return f"{fsname}-OST{number:04x}-osc-{digits}"
