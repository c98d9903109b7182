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

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Row, Tick
from slurm_io.filesystems.capacity import capacity_of, read_statvfs
from slurm_io.filesystems.mounts import MountTable, read_mounts
from slurm_io.host.probe import Answer, Probe

_TIMEOUT_S = 5.0


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
        self._waiting: list[str] = []
        self._probe: Probe | None = None
        self._stuck: dict[str, Probe] = {}
        self._failures: dict[str, dict[str, object]] = {}

    def open(self, context: Context) -> Availability:
        """Nothing is asked yet: the mounts may change before the first tick."""
        self._context = context
        if not context.capacity_mounts():
            return Availability("partial", "no mount to watch is known yet")
        return Availability("on")

    def collect(self, tick: Tick) -> list[Row]:
        """Rows of the mounts that have answered since the last tick."""
        rows = self._take_answers()
        if self._probe is None and self._is_due(tick):
            self._ask(tick)
        return rows

    def facts(self) -> dict[str, object]:
        """Mounts that gave no answer: how often, the last reason, a child left behind."""
        return {"failures": {mount: dict(fact) for mount, fact in self._failures.items()}}

    def close(self) -> None:
        """Kill the child, if one is asking."""
        if self._probe is not None:
            self._probe.stop()
            self._probe = None

    def _is_due(self, tick: Tick) -> bool:
        return self._asked is None or (
            tick.mono_ns - self._asked.mono_ns >= self.probe_period_s * 1e9
        )

    def _ask(self, tick: Tick) -> None:
        if self._context is None:
            return
        self._mounts = read_mounts(self._context.proc_root)
        self._asked = tick
        wanted = dict.fromkeys(self._context.capacity_mounts())
        self._start([mount for mount in wanted if not self._still_stuck(mount)])

    def _start(self, mounts: list[str]) -> None:
        self._waiting = mounts
        calls = [(read_statvfs, (mount,)) for mount in mounts]
        self._probe = Probe(calls, _TIMEOUT_S) if calls else None

    def _take_answers(self) -> list[Row]:
        probe = self._probe
        if probe is None:
            return []
        probe.poll()
        if not probe.finished:
            return []
        self._probe = None
        rows = []
        unasked = []
        for mount, answer in zip(self._waiting, probe.answers, strict=True):
            if answer is None:
                unasked.append(mount)
            elif answer.state == "ok":
                rows.append(self._row(mount, answer))
            else:
                self._note(mount, answer.reason)
                self._stuck.update({mount: probe} if answer.abandoned_pid else {})
        # A mount that hung ended the child; those behind it are asked by the next one.
        self._start(unasked)
        return rows

    def _still_stuck(self, mount: str) -> bool:
        """True while a child sleeps at that mount: a second one would only sleep beside it."""
        probe = self._stuck.get(mount)
        if probe is None:
            return False
        if probe.still_stuck():
            self._note(mount, f"child {probe.abandoned_pid} still hangs in statvfs")
            return True
        del self._stuck[mount]
        return False

    def _note(self, mount: str, reason: str) -> None:
        count = self._failures.get(mount, {}).get("count", 0)
        assert isinstance(count, int)
        self._failures[mount] = {"count": count + 1, "reason": reason}

    def _row(self, mount: str, answer: Answer) -> Row:
        assert self._asked is not None
        found = self._mounts.of_path(mount)
        return (
            self._asked.ts_ns,
            self._asked.mono_ns,
            mount,
            found.fstype if found is not None else "unknown",
            *capacity_of(answer.value),
        )
