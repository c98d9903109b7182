"""GPFS (IBM Storage Scale): application I/O by file system, and threads that wait long.

Source
    ``mmpmon -p`` with ``fs_io_s`` every 10 s, ``mmdiag --waiters -Y`` every 30 s, both in
    /usr/lpp/mmfs/bin, in a child that can be killed or left behind. mmpmon's counters are never
    reset by us; who resets them (dool does) costs one interval.

Columns
    Table ``fsclient``, ``source`` mmpmon, stamped with the moment the question was put. ``read``,
    ``write``, and ``meta`` for opens, closes, readdirs and inode updates. ``bytes`` are what
    applications moved, page pool hits included, and null for ``meta``. Times, errors and requests
    in flight are not told: null. Instead meta.json lists waiters of a second and longer (GPFS's own
    housekeeping apart) by thread and reason: how often seen, the longest wait. Counters are the
    node's, not one job's.

Needs
    Root, for both commands. With mmfsd down mmpmon fails or hangs: said in meta.json, and asked
    less and less often.

Cost
    Six times a minute mmpmon, twice mmdiag: each round 2 ms of CPU in the sampler and 9 ms in
    children, besides what the commands need themselves; 1 or 10 file systems alike.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Row, Tick
from slurm_io.collectors.client_rows import ClientRows, mount_points, shown
from slurm_io.filesystems.mount_watch import MountWatch
from slurm_io.filesystems.mounts import Mount

if TYPE_CHECKING:
    from slurm_io.filesystems.gpfs.waiters import Waiter
    from slurm_io.host.place_probes import PlaceProbes

_MMPMON, _MMDIAG = "mmpmon", "mmdiag"
_TIMEOUT_S = 4.0
_WAITERS_EVERY_S = 30.0
_LEAST_WAIT_S = 1.0
_MOST_SHOWN = 64
_MOST_DOUBLINGS = 6
_UNKNOWN = {
    "rtt_ms": "mmpmon tells no times; long waits are in waiters",
    "errors": "mmpmon counts no failed operations",
    "inflight": "mmpmon does not show operations in flight",
}


@COLLECTORS.register("gpfs")
class Gpfs:
    """Rows of GPFS file systems. Called every second, it asks every `probe_period_s`."""

    name = "gpfs"
    table = "fsclient"
    period_s = 1.0
    probe_period_s = 10.0

    def __init__(self) -> None:
        self._watch = MountWatch(Path("/proc"), _is_gpfs)
        self._tools: dict[str, str] = {}
        self._probes: PlaceProbes | None = None
        self._reset()

    def open(self, context: Context) -> Availability:
        """Without a GPFS mount neither parser nor tools are looked for."""
        self.close()
        self._reset()
        self._watch = MountWatch(context.proc_root, _is_gpfs, b" - gpfs ")
        self._watch.look()
        if not self._watch.mounts:
            self.close()
            return Availability("absent", "no GPFS mount here")
        from slurm_io.filesystems.gpfs.commands import TOOLS
        from slurm_io.host.place_probes import PlaceProbes

        paths = {tool: os.path.join(TOOLS, tool) for tool in (_MMPMON, _MMDIAG)}
        self._tools = {tool: path for tool, path in paths.items() if os.access(path, os.X_OK)}
        if os.geteuid() != 0:
            self.close()
            return Availability("off", "mmpmon answers only root: install slurm_io in the Prolog")
        if _MMPMON not in self._tools:
            self.close()
            return Availability("off", f"{paths[_MMPMON]} is not there or cannot be run")
        self._probes = PlaceProbes(2 * _TIMEOUT_S + 2)
        return Availability("on")

    def collect(self, tick: Tick) -> list[Row]:
        """Rows of the file systems that did something between the last two answers."""
        if self._probes is None:
            return []
        answers = self._probes.take()
        rows = self._rows_of(answers[_MMPMON]) if _MMPMON in answers else []
        if _MMDIAG in answers:
            self._note_waiters(answers[_MMDIAG])
        if not self._probes.is_asking and self._is_due(tick, self._asked, self._period_s()):
            self._ask(self._probes, tick)
        return rows

    def facts(self) -> dict[str, object]:
        """File systems without a mount here, waiters, and commands that failed."""
        failures = {} if self._probes is None else self._probes.failures
        return {
            "shared_by": "node",
            "mounts": mount_points(self._watch.mounts),
            "restarts": dict(self._rows.restarts),
            "unknown": dict(_UNKNOWN),
            "waiters": [dict(waiter) for waiter in self._waiters.values()],
            "lines_not_understood": self._damaged,
            "failures": {tool: dict(failure) for tool, failure in failures.items()},
        }

    def close(self) -> None:
        """Give the descriptor back, kill the child."""
        self._watch.close()
        if self._probes is not None:
            self._probes.stop()

    def _reset(self) -> None:
        self._probes = None
        self._rows = ClientRows()
        self._filesystems: set[str] = set()
        self._asked: Tick | None = None
        self._asked_waiters: Tick | None = None
        self._failed_before = 0
        self._waiters: dict[tuple[str, str], dict[str, Any]] = {}
        self._damaged = 0

    def _period_s(self) -> float:
        """Longer after each time that mmpmon did not answer: one that hangs stays behind."""
        silent_rounds = min(self._failed() - self._failed_before, _MOST_DOUBLINGS)
        return self.probe_period_s * float(2**silent_rounds)

    def _failed(self) -> int:
        failures = {} if self._probes is None else self._probes.failures
        return int(failures.get(_MMPMON, {}).get("count", 0))

    def _is_due(self, tick: Tick, asked: Tick | None, period_s: float) -> bool:
        return asked is None or tick.mono_ns - asked.mono_ns >= period_s * 1e9

    def _ask(self, probes: PlaceProbes, tick: Tick) -> None:
        from slurm_io.filesystems.gpfs.commands import ask_mmpmon, ask_waiters

        self._watch.look(tick.mono_ns)
        self._asked = tick
        calls: dict[str, Any] = {_MMPMON: (ask_mmpmon, (self._tools[_MMPMON], _TIMEOUT_S))}
        if _MMDIAG in self._tools and self._is_due(tick, self._asked_waiters, _WAITERS_EVERY_S):
            self._asked_waiters = tick
            calls[_MMDIAG] = (ask_waiters, (self._tools[_MMDIAG], _TIMEOUT_S))
        probes.ask(calls)

    def _rows_of(self, text: str) -> list[Row]:
        from slurm_io.filesystems.gpfs.counters import counters_of
        from slurm_io.filesystems.gpfs.mmpmon import parse_mmpmon

        assert self._asked is not None
        self._failed_before = self._failed()
        answer = parse_mmpmon(text)
        self._damaged += answer.damaged
        lines = {line.filesystem: line for line in answer.lines if line.filesystem is not None}
        # Series without a reading start anew: the interval is that between two answers.
        for gone in self._filesystems - lines.keys():
            self._rows.forget(gone)
        self._filesystems = set(lines)
        self._rows.begin(self._asked)
        rows = []
        for name, line in lines.items():
            mount = self._mount_of(name)
            if mount is None:
                continue
            for op_class, now in counters_of(line).items():
                row = self._rows.row(mount, "gpfs", _MMPMON, op_class, now, owner=name)
                rows += [] if row is None else [row]
        return rows

    def _mount_of(self, filesystem: str) -> str | None:
        """The first mount of a file system; None when it is not mounted in this namespace."""
        for mount in self._watch.mounts:
            if mount.source.rpartition("/")[2] == filesystem:
                return shown(mount.mount_point)
        return None

    def _note_waiters(self, text: str) -> None:
        from slurm_io.filesystems.gpfs.waiters import longest, parse_waiters

        found = parse_waiters(text)
        self._damaged += found.damaged
        for waiter in longest(found.waiters, _LEAST_WAIT_S):
            self._note_waiter(waiter)

    def _note_waiter(self, waiter: Waiter) -> None:
        key = (waiter.name, waiter.reason)
        before = self._waiters.get(key)
        if before is None and len(self._waiters) >= _MOST_SHOWN:
            return
        known = before or {
            "thread": waiter.name,
            "reason": waiter.reason,
            "seen": 0,
            "longest_s": 0,
        }
        self._waiters[key] = {
            **known,
            "seen": known["seen"] + 1,
            "longest_s": max(known["longest_s"], waiter.wait_s),
        }


def _is_gpfs(mount: Mount) -> bool:
    return mount.fstype == "gpfs"
