"""Lustre mounts, from the application's side (llite) and from the wire's (osc and mdc).

Source
    ``llite/*/stats``, ``osc/*/stats`` and ``mdc/*/stats`` below /sys/kernel/debug/lustre (2.12 and
    later) or /proc/fs/lustre (2.10); ``import``, ``state`` and ``rpc_stats`` of osc and mdc in
    procfs, from 2.17 on in debugfs. No lctl or lfs is started.

Columns
    Table ``fsclient``, two sets of rows per mount. ``source`` llite, every second: calls of
    applications, page-cache hits included, with ``exe_ms`` from 2.14 on (null before). ``meta``
    there is open, close, getattr, readdir, create and their like; seek, mmap, inode_permission and
    others that memory answers are left out. Reads through mmap are page faults of a size nobody
    counts: meta.json has their number, ``osc+mdc`` their bytes.

    ``source`` osc+mdc: RPCs with their ``bytes`` and ``rtt_ms``, all targets together; ``meta`` is
    every RPC that is no read, write, ping, lock cancel or connect. Targets are read 16 a second;
    with more of them a row covers as many seconds as a pass takes (``interval_ns``). ``inflight``
    holds read and write RPCs, direct I/O included, and for ``meta`` all others of the MDTs, as last
    looked at, 8 targets a second. It goes on with ``ops`` 0 while a server hangs. An interval in
    which a target's counters went back is without that target, counted in meta.json.

    Readahead that is not used shows as more ``bytes`` of osc+mdc than of llite; meta.json has the
    ratio over the whole recording, the page cache's limit, mean and limit of RPCs in flight, and
    ``outages``: when a connection was lost or evicted, with times. Counters are the node's, not one
    job's. Two mounts of one file system are told apart by asking each (an ioctl, in a child that
    can be killed); where that fails, rows bear the instance's name instead of the mount point.

Needs
    Root from 2.12 on. Without it: up to 2.16 RPC counts and ``inflight`` from rpc_stats (``source``
    rpc_stats, bytes and times null) and the outages; with 2.17 nothing. Counters that an
    administrator narrowed to one process (stats_track_pid) are not used.

Cost
    CPU a tick with 1, 10 and 100 mounts of 8 OSTs each: 0.2, 0.2 and 0.7 ms when they are idle,
    0.7, 1.7 and 8 ms when all are busy; with one mount of 400 busy OSTs 1.5 ms. Opening takes
    0.1 ms a target, once. The kernel's time to write the files comes on top.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Row, Tick
from slurm_io.collectors.client_rows import ClientRows, shown, shown_facts
from slurm_io.filesystems.mount_watch import MountWatch

if TYPE_CHECKING:
    from slurm_io.filesystems.client_counters import ClientCounters, OpClass
    from slurm_io.filesystems.lustre.client import LustreClient
    from slurm_io.filesystems.lustre.mount_view import MountView
    from slurm_io.filesystems.lustre.names import Instance
    from slurm_io.filesystems.mounts import Mount

_FSTYPE = "lustre"
_MOST_REASONS = 3
_TARGETS_A_TICK = 16
_STATES_A_TICK = 8
_TOTALS_PERIOD_NS = 30 * 1_000_000_000


@COLLECTORS.register("lustre")
class Lustre:
    """Rows of Lustre mounts."""

    name = "lustre"
    table = "fsclient"
    period_s = 1.0

    def __init__(self) -> None:
        self._watch = MountWatch(Path("/proc"), _is_lustre)
        self._client: LustreClient | None = None
        self._start()

    def open(self, context: Context) -> Availability:
        """Without a Lustre mount the parsers are not even loaded."""
        self.close()
        self._start()
        self._watch = MountWatch(context.proc_root, _is_lustre, b" - lustre ")
        self._watch.look()
        if not self._watch.mounts:
            self.close()
            return Availability("absent", "no Lustre mount here")
        from slurm_io.filesystems.lustre.client import LustreClient
        from slurm_io.filesystems.lustre.places import Places

        self._client = LustreClient(Places(context.proc_root, context.sys_root))
        self._client.lay_out(self._watch.mounts)
        return _availability(self._client)

    def collect(self, tick: Tick) -> list[Row]:
        """Rows of what the mounts did and of what their servers owe."""
        if self._client is None:
            return []
        if self._watch.look(tick.mono_ns):
            for gone in self._client.lay_out(self._watch.mounts):
                self._forget(gone.instance)
        self._client.poll()
        self._take_totals(tick)
        self._rows.begin(tick)
        # While it is being asked which of two mounts is which, neither has rows.
        known = [one for one in self._client.views if one.mount_point or not self._client.is_asking]
        self._turn += 1
        turn = self._having_turn(known)
        rows = [row for view in known for row in self._llite(view)]
        return rows + [row for view in turn for row in self._wire(view, tick, len(turn))]

    def facts(self) -> dict[str, object]:
        """Mounts, what is not seen of them and why, outages, and counters that started again."""
        facts = {} if self._client is None else self._client.facts()
        return {**shown_facts(facts), "shared_by": "node", "restarts": dict(self._rows.restarts)}

    def close(self) -> None:
        """Give the descriptors back."""
        self._watch.close()
        if self._client is not None:
            self._client.close()

    def _start(self) -> None:
        self._rows = ClientRows()
        self._wire_rows: dict[Instance, ClientRows] = {}
        self._totals_ns: int | None = None
        self._turn = 0

    def _take_totals(self, tick: Tick) -> None:
        last_ns = self._totals_ns
        if self._client is not None and (
            last_ns is None or tick.mono_ns - last_ns >= _TOTALS_PERIOD_NS
        ):
            self._totals_ns = tick.mono_ns
            self._client.take_totals()

    def _llite(self, view: MountView) -> list[Row]:
        found = view.llite.read()
        if found is None:
            self._rows.forget(view.instance)
            return []
        return _rows_of(self._rows, view, "llite", found)

    def _having_turn(self, views: list[MountView]) -> list[MountView]:
        """All mounts, or with very many of them each in its turn."""
        turns = -(-len(views) // _STATES_A_TICK)
        return [view for place, view in enumerate(views) if place % turns == self._turn % turns]

    def _wire(self, view: MountView, tick: Tick, sharers: int) -> list[Row]:
        """Rows at the end of a pass over the targets; none while it goes on."""
        view.states.look(tick.ts_ns / 1e9, _STATES_A_TICK // sharers)
        if not view.wire.read(_TARGETS_A_TICK // sharers):
            return []
        rows = self._wire_rows.setdefault(view.instance, ClientRows())
        rows.begin(tick)
        totals = {
            op_class: one._replace(inflight=view.states.inflight(op_class))
            for op_class, one in view.wire.totals.items()
        }
        return _rows_of(rows, view, str(view.wire.source), totals)

    def _forget(self, instance: Instance) -> None:
        self._rows.forget(instance)
        self._wire_rows.pop(instance, None)


def _rows_of(
    rows: ClientRows, view: MountView, source: str, totals: dict[OpClass, ClientCounters]
) -> list[Row]:
    mount = shown(view.shown_as)
    found = (
        rows.row(mount, _FSTYPE, source, op_class, one, view.instance)
        for op_class, one in totals.items()
    )
    return [row for row in found if row is not None]


def _availability(client: LustreClient) -> Availability:
    reasons = list(dict.fromkeys(reason for view in client.views for reason in view.reasons()))
    text = "; ".join(reasons[:_MOST_REASONS])
    if len(reasons) > _MOST_REASONS:
        text += f"; {len(reasons) - _MOST_REASONS} more of the kind stand in meta.json (not_seen)"
    if not client.views:
        return Availability("off", "no counters of Lustre are visible here (a container?)")
    if all(view.is_blind for view in client.views):
        return Availability("off", text)
    return Availability("partial", text) if reasons else Availability("on")


def _is_lustre(mount: Mount) -> bool:
    return mount.fstype == _FSTYPE
