"""NFS mounts as the kernel's client counts them, with the figures of ``nfsiostat``.

Source
    /proc/self/mountstats, one read a tick; mountinfo every 30 s for what was mounted since;
    /proc/net/rpc/nfs every 30 s.

Columns
    Table ``fsclient``, ``source`` mountstats; per mount, second and class. ``read`` is READ and
    READ_PLUS, ``write`` is WRITE, ``meta`` all others an application asks for (COMMIT too), without
    the client's own dealings (SEQUENCE, RENEW, NULL, …). ``ops``, ``rtt_ms``, ``exe_ms``,
    ``queue_ms``, ``retrans`` and ``errors`` are those of nfsiostat: an operation counts when it
    completes, ``queue_ms`` is the wait for a slot and for sending. ``bytes`` are file contents
    moved over the wire (serverread, serverwrite), RPC headers not counted as nfsiostat does; null
    for ``meta``. With pNFS, ``bytes`` hold what data servers sent while ``ops`` may not. ``errors``
    needs RPC iostats 1.1 (EL 8.1 and later), else null. A time the kernel shows below zero makes
    that mean null.

    ``inflight`` is known per server only, from its connections: requests sent and not answered,
    without what a broken connection swallowed. It stands in one row of one mount of that server, in
    the class that did most in the last interval in which anything completed; in the other rows it
    is null. When a server hangs, that row goes on with ``ops`` 0 and ``inflight`` above 0, its
    means null. Requests that wait for a connection to be made are not in it.

    Mounts of one superblock (an export mounted twice, folders of one exported file system) share
    their counters and have one set of rows, under the first mount; meta.json names the others, and
    per server what waits for a slot (backlog) and the retransmissions. A mount made anew has no row
    for that interval, counted in meta.json. Counters are the node's, not one job's.

Needs
    Nothing. Only the sampler's own mount namespace is seen.

Cost
    CPU a tick with 1, 10 and 100 mounts: 0.03, 0.1 and 0.8 ms when they are idle, 0.1, 0.8 and 8 ms
    when all are busy. The kernel's time to write the file (3 kB a mount) comes on top. Only lines
    that changed are parsed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Row, Tick
from slurm_io.collectors.client_rows import ClientRows, shown, shown_facts
from slurm_io.filesystems.client_counters import OP_CLASSES
from slurm_io.filesystems.mount_watch import MountWatch
from slurm_io.host.kept import KeptFile

if TYPE_CHECKING:
    from slurm_io.filesystems.mounts import Mount
    from slurm_io.filesystems.nfs.client import NfsClient, Stack

_FSTYPES = ("nfs", "nfs4")
_SOURCE = "mountstats"
_TOTALS_PERIOD_NS = 30 * 1_000_000_000


@COLLECTORS.register("nfs")
class Nfs:
    """Rows of NFS mounts."""

    name = "nfs"
    table = "fsclient"
    period_s = 1.0

    def __init__(self) -> None:
        self._open_at(Path("/proc"))
        self._client: NfsClient | None = None

    def open(self, context: Context) -> Availability:
        """Without an NFS mount the parser is not even loaded."""
        self.close()
        self._open_at(context.proc_root)
        self._watch.look()
        if not self._watch.mounts:
            self.close()
            return Availability("absent", "no NFS mount here")
        if self._source.read() is None:
            self.close()
            return Availability("off", f"{self._source.path} cannot be read")
        from slurm_io.filesystems.nfs.client import NfsClient

        self._client = NfsClient()
        return Availability("on")

    def collect(self, tick: Tick) -> list[Row]:
        """Rows of the mounts that did something or whose server owes replies."""
        content = None if self._client is None else self._source.read()
        if content is None or self._client is None:
            return []
        from slurm_io.filesystems.nfs.mountstats import split_mounts

        self._rows.begin(tick)
        blocks = split_mounts(content)
        if self._watch.look(tick.mono_ns) or not self._client.fits(blocks):
            self._lay_out(self._client, blocks)
        self._take_totals(tick)
        return [row for one in self._client.take(blocks) for row in self._rows_of(one)]

    def facts(self) -> dict[str, object]:
        """Mounts and servers, what their numbers are, and how often counters started again."""
        facts = {} if self._client is None else self._client.facts()
        return {
            **shown_facts(facts),
            "shared_by": "node",
            "restarts": dict(self._rows.restarts),
            "rpc_since_start": self._totals_since_start(),
        }

    def close(self) -> None:
        """Give the descriptors back."""
        for kept in (self._watch, self._source, self._totals_source):
            kept.close()

    def _open_at(self, proc_root: Path) -> None:
        self._watch = MountWatch(proc_root, _is_nfs, b" - nfs")
        self._source = KeptFile(proc_root / "self" / "mountstats")
        self._totals_source = KeptFile(proc_root / "net" / "rpc" / "nfs")
        self._rows = ClientRows()
        self._totals: list[tuple[int, int]] = []
        self._totals_ns: int | None = None

    def _lay_out(self, client: NfsClient, blocks: list[bytes]) -> None:
        self._watch.look()  # mountstats may know of a mount before the 30 s are over
        for gone in client.lay_out(blocks, self._watch.mounts):
            self._rows.forget(gone)

    def _rows_of(self, stack: Stack) -> list[Row]:
        mount, fstype, owner = shown(stack.head.mount_point), stack.head.fstype, stack.owner
        if stack.restarted:
            self._rows.forget(owner)
            self._rows.count_restart(mount)
        rows = (
            self._rows.row(mount, fstype, _SOURCE, op_class, stack.counters(op_class), owner)
            for op_class in OP_CLASSES
        )
        return [row for row in rows if row is not None]

    def _take_totals(self, tick: Tick) -> None:
        """First and last calls and retransmissions of the node, read every 30 s."""
        if self._totals_ns is not None and tick.mono_ns - self._totals_ns < _TOTALS_PERIOD_NS:
            return
        from slurm_io.filesystems.nfs.rpc_totals import parse_rpc_totals

        self._totals_ns = tick.mono_ns
        content = self._totals_source.read()
        found = None if content is None else parse_rpc_totals(content.decode("ascii", "replace"))
        if found is not None:
            self._totals = [*self._totals[:1], (found.calls, found.retrans)]

    def _totals_since_start(self) -> dict[str, int] | None:
        if not self._totals or self._totals[-1] < self._totals[0]:
            return None
        calls, retrans = (
            last - first for first, last in zip(self._totals[0], self._totals[-1], strict=True)
        )
        return {"calls": calls, "retrans": retrans}


def _is_nfs(mount: Mount) -> bool:
    return mount.fstype in _FSTYPES
