"""What a collector is, and the registry that finds them.

A collector reads one source and returns rows for one table. One file each, named after the
collector; it registers itself. The sampler calls :meth:`Collector.open` once, then
:meth:`Collector.collect` at every tick that is due, each call isolated: an exception costs that
collector its own rows for that tick, is counted in self.json, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from slurm_io.registry import Registry

Row = tuple[object, ...]


@dataclass(frozen=True)
class Tick:
    """One moment of the sampling grid. `interval_ns` is None at the first tick."""

    ts_ns: int
    mono_ns: int
    interval_ns: int | None


@dataclass(frozen=True)
class Availability:
    """Whether a source can be read here; `reason` says why not, in words for the report.

    "absent" is not a fault: nothing of the kind is on this node (no such mount), so the report does
    not name it as missing. It is opened again every 30 s, for what may still be mounted.
    """

    state: Literal["on", "off", "partial", "absent"]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """One process of the job as the sampler knows it.

    `rank_pid` is the rank's own process for a worker or a helper. `helper_of` is set for a process
    that works for one rank or worker (a `cat` behind its pipe): it is not counted by itself.
    """

    pid: int
    starttime: int
    ppid: int
    comm: str
    rank: int | None
    role: Literal["rank", "worker", "other"]
    rank_pid: int | None = None
    helper_of: int | None = None


@dataclass(frozen=True)
class StackWindows:
    """How stacks are recorded: `share` of one core; `spool`, for files that no name leads to;
    `as_root`: py-spy stays root."""

    share: float
    spool: Path
    as_root: bool = False


@dataclass(frozen=True)
class Context:
    """What a collector may look at.

    `members` returns the job's processes as of this tick. `phase_of` tells what the rank with a
    given pid is in at this very moment, (phase, loader id or None), read from the hook's ring;
    ("none", None) without a hook. `uid` is the job's user, None when it is not known. `gpus` is
    that of :class:`slurm_io.model.SamplerSpec`. `stacks` is None where nobody asked for them.
    """

    proc_root: Path
    sys_root: Path
    members: Callable[[], Sequence[Member]]
    cgroup_paths: Callable[[], Sequence[str]]
    capacity_mounts: Callable[[], Sequence[str]]
    phase_of: Callable[[int], tuple[str, int | None]]
    uid: int | None = None
    gpus: str | None = None
    stacks: StackWindows | None = None


class Collector(Protocol):
    """One source. Rows follow the columns of `table` in schema order, clocks included.

    One that keeps a helper process has `helper_cpu_s` too: CPU seconds of helpers that live, by
    their own word, so that they count before anybody waits for them.
    """

    name: str
    table: str
    period_s: float

    def open(self, context: Context) -> Availability:
        """Look whether the source is there; keep descriptors for later reads. Called once, and
        again as long as it answers "absent"."""

    def collect(self, tick: Tick) -> list[Row]:
        """Rows of this tick. The first tick of a rate source returns none."""

    def facts(self) -> dict[str, object]:
        """What belongs into meta.json under this collector's name (device list, mounts); asked for
        once more after :meth:`close`. A "state" and "reason" among it count instead of what
        :meth:`open` said: more may be known by now."""

    def close(self) -> None:
        """Give descriptors back."""


@runtime_checkable
class SlowsItself(Protocol):
    """A collector that is called more often than it looks, and looks less often when told."""

    def slow_down(self, factor: int) -> None:
        """Look only every `factor` periods from now on."""


COLLECTORS: Registry[type[Collector]] = Registry(
    "collector", "slurm_io.collectors", skip=("base", "client_rows")
)
