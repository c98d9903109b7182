"""One job on one node: everything the loop drives, put together from a SamplerSpec."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from slurm_io.collectors.base import COLLECTORS, Collector, Context, Row, StackWindows
from slurm_io.collectors.waits import WaitsCollector
from slurm_io.filesystems.mounts import read_mounts
from slurm_io.model import SamplerSpec
from slurm_io.sampler.collecting import CollectorRunner, Metered, Usage
from slurm_io.sampler.discovery import Discovery
from slurm_io.sampler.facts import mount_facts, node_facts, peak_rss_bytes
from slurm_io.sampler.governor import Governor
from slurm_io.sampler.grid import Grid
from slurm_io.sampler.paces import DISCOVERY, FACTS, RINGS, WAITS, Pace
from slurm_io.sampler.rings import Rings
from slurm_io.sampler.saved_to import SavedTo
from slurm_io.sampler.sealing import SealingChild
from slurm_io.store.files import write_json_atomic
from slurm_io.store.packed import PackedRows
from slurm_io.store.reserve import Reserve

_NS = 1_000_000_000
_MOST_CAPACITY_MOUNTS = 32
_LAST_SLACK_NS = 2**62  # of the last tick: everything is due
_HOUSEKEEPING = (DISCOVERY, RINGS, FACTS, "store")
_NOT_SLOWED = ("waits", "stacks")  # its passes are slowed instead; a share of its own


class Stats(Protocol):
    """What a writer counted."""

    @property
    def rows(self) -> dict[str, int]: ...
    @property
    def dropped_rows(self) -> int: ...
    @property
    def drop_reason(self) -> str | None: ...
    @property
    def bytes_written(self) -> int: ...


class Sink(Protocol):
    """Where rows go; :class:`slurm_io.store.spool.SpoolWriter` is one."""

    def extend(self, table_name: str, rows: Sequence[Row]) -> None:
        """Take some rows."""

    def extend_packed(self, table_name: str, blocks: Sequence[PackedRows]) -> None:
        """Take some rows that are packed already."""

    @property
    def rotations(self) -> int:
        """How many streams were set aside so far."""

    def flush_due(self, mono_ns: int) -> bool:
        """Hand rows to the kernel when it is time."""

    def close(self) -> None:
        """Flush and close."""

    def stats(self) -> Stats:
        """Totals so far."""


class Session:
    """What is sampled. The loop says when."""

    def __init__(self, spec: SamplerSpec, sink: Sink, mono_ns: int, offset_ns: int) -> None:
        self._spec = spec
        self._sink = sink
        self._start_ns = mono_ns
        self.offset_ns = offset_ns
        self._meta = node_facts(spec, mono_ns + offset_ns, offset_ns)
        self._cpu_start_s = time.process_time()
        self.discovery = Discovery(spec)
        self.rings = Rings(
            Path(spec.ring_dir),
            spec.job.uid,
            offset_ns,
            self.discovery.find_pid,
            along_from_ns=mono_ns if spec.reads_along else None,
        )
        self.governor = Governor(spec.budget_share, spec.waits_hz)
        self._housekeeping = {name: Usage() for name in _HOUSEKEEPING}
        self._waits_usage = Usage()
        self._waits: WaitsCollector | None = None
        self.runners = self._make_runners()
        self._discovered_ns: int | None = None
        self._sealing = SealingChild(Path(spec.spool))
        self._reserve = Reserve(Path(spec.spool))
        self._work_mount = _mount_of(spec.job.work_dir, Path(spec.proc_root))
        self._saved_to = SavedTo(Path(spec.proc_root))

    def open(self) -> None:
        """Open all sources. May be left in the middle and called again, as :meth:`finish`."""
        context = Context(
            proc_root=Path(self._spec.proc_root),
            sys_root=Path(self._spec.sys_root),
            members=self.discovery.members,
            cgroup_paths=self.discovery.cgroup_paths,
            capacity_mounts=self._capacity_mounts,
            phase_of=self.rings.phase_of,
            uid=self._spec.job.uid,
            gpus=self._spec.gpus,
            stacks=self._stack_windows(),
        )
        self._look(self._start_ns)
        for runner in self.runners.values():
            runner.open(context)

    def sample_waits(self, mono_ns: int) -> None:
        """One pass."""
        waits = self._waits
        if waits is not None and self.runners["waits"].availability.state != "off":
            with Metered(self._waits_usage):
                waits.sample(mono_ns)

    def tick(self, mono_ns: int, slack_ns: int) -> None:
        """One tick: processes, rings, collectors, flush."""
        self._look(mono_ns)
        self._drain_rings(each=self.governor.pace.factor(RINGS) if slack_ns < _LAST_SLACK_NS else 1)
        for runner in self.runners.values():
            rows = runner.rows(mono_ns + self.offset_ns, mono_ns, slack_ns)
            if rows:
                self._sink.extend(runner.collector.table, rows)
        with Metered(self._housekeeping["store"]):
            self._sink.flush_due(mono_ns)
        self._sealing.tend(self._sink.rotations, mono_ns / _NS)

    def govern(self, now_s: float) -> Pace:
        """Let the governor look at what we cost; the pace from now on."""
        spent_s = self.cpu_s() - self._cpu_of("stacks")  # that source keeps to a share of its own
        if self.governor.update(now_s, spent_s, self._cpu_by_source()):
            self._stretch_periods(self.governor.pace)
        return self.governor.pace

    def _cpu_by_source(self) -> dict[str, float]:
        slowable = [name for name in self.runners if name not in _NOT_SLOWED]
        return {
            WAITS: self._waits_usage.cpu_ns / _NS,
            **{name: self._housekeeping[name].cpu_ns / _NS for name in (DISCOVERY, RINGS, FACTS)},
            **{name: self._cpu_of(name) for name in slowable},
        }

    def _cpu_of(self, collector: str) -> float:
        runner = self.runners.get(collector)
        return runner.usage.cpu_ns / _NS + runner.usage.all_children_cpu_s if runner else 0.0

    def _stack_windows(self) -> StackWindows | None:
        spec = self._spec
        if spec.stacks_share <= 0:
            return None
        return StackWindows(spec.stacks_share, Path(spec.spool), spec.stacks_as_root)

    def _stretch_periods(self, pace: Pace) -> None:
        for name, runner in self.runners.items():
            runner.slow_down(pace.factor(name))
        if self._waits is not None:
            self._waits.hold_ns = int(pace.hold_s * _NS)
            self._waits.rounds.turns = pace.turns

    def processes(self) -> int:
        """How many processes of the job live."""
        return len(self.discovery.members()) + self.discovery.hung_members

    def cpu_s(self) -> float:
        """CPU seconds used since the start, probes included."""
        return time.process_time() - self._cpu_start_s + self._children_cpu_s()

    def finish(self, mono_ns: int) -> None:
        """Last tick, at full pace, then close everything."""
        for runner in self.runners.values():
            runner.slow_down(1)
        self.tick(mono_ns, slack_ns=_LAST_SLACK_NS)
        self._sealing.stop()
        self.discovery.close()
        self._sink.extend("events", self.rings.close())
        for runner in self.runners.values():
            runner.close()
        with Metered(self._housekeeping["store"]):
            self._sink.close()

    def write_facts(self, grid: Grid, mono_ns: int, end_reason: str | None) -> None:
        """Replace meta.json and self.json. A full disk costs the facts, not the sampler."""
        spool = Path(self._spec.spool)
        with self._reserve.lent(again=end_reason is None):
            with Metered(self._housekeeping[FACTS]):
                write_json_atomic(spool / "self.json", self._self_facts(grid, mono_ns))
            with Metered(self._housekeeping[FACTS]):
                write_json_atomic(spool / "meta.json", self._meta_facts(mono_ns, end_reason))

    def _make_runners(self) -> dict[str, CollectorRunner]:
        runners = {}
        for name, make in COLLECTORS.discover().items():
            if name in self._spec.collectors_off:
                continue
            collector: Collector = make()
            if isinstance(collector, WaitsCollector):
                self._waits = collector
            runners[name] = CollectorRunner(collector)
        return runners

    def _look(self, mono_ns: int) -> None:
        period_ns = int(self.governor.pace.discovery_period_s * _NS * 0.75)
        if self._discovered_ns is not None and mono_ns - self._discovered_ns < period_ns:
            return
        self._discovered_ns = mono_ns
        with Metered(self._housekeeping["discovery"], has_children=True):
            self.discovery.refresh(self.rings.ranks())

    def _drain_rings(self, each: int) -> None:
        with Metered(self._housekeeping["rings"]):
            steps, events = self.rings.drain(each)
            self._sink.extend("steps", steps)
            self._sink.extend_packed("steps", self.rings.take_packed())
            self._sink.extend("events", events)
            self._sink.extend("gpu_waits", self.rings.take_gpu_waits())
            self._saved_to.note(events)

    def _capacity_mounts(self) -> Sequence[str]:
        seen = self._waits.mounts_waited_for() if self._waits is not None else []
        own = [self._work_mount] if self._work_mount else []
        return list(dict.fromkeys([*own, *self._saved_to.mounts, *seen]))[:_MOST_CAPACITY_MOUNTS]

    def _children_cpu_s(self) -> float:
        usages = [runner.usage for runner in self.runners.values()]
        return sum(usage.all_children_cpu_s for usage in [*usages, *self._housekeeping.values()])

    def _meta_facts(self, mono_ns: int, end_reason: str | None) -> dict[str, Any]:
        ended = end_reason is not None
        return {
            **self._meta,
            "end_ts_ns": mono_ns + self.offset_ns if ended else None,
            "clean_end": ended,
            "end_reason": end_reason,
            "mounts": mount_facts(Path(self._spec.proc_root)),
            "sources": {name: runner.facts() for name, runner in self.runners.items()},
            "ranks": self._rank_facts(),
            "loaders": self.rings.loader_facts(),
            "workers_seen": self.discovery.workers_seen,
            "processes_seen": self.discovery.processes_seen,
            "processes": self.discovery.facts(),
            "cpus_allowed": self.discovery.allowed_cpus.to_dict(),
        }

    def _rank_facts(self) -> list[dict[str, Any]]:
        """Those with a ring, and those that only their environment tells."""
        hooked = self.rings.rank_facts()
        return hooked + self.discovery.ranks_told(hooked)

    def _self_facts(self, grid: Grid, mono_ns: int) -> dict[str, Any]:
        stats = self._sink.stats()
        return {
            "cpu_s": round(time.process_time() - self._cpu_start_s, 6),
            "children_cpu_s": round(self._children_cpu_s(), 6),
            "wall_s": (mono_ns - self._start_ns) / _NS,
            "rss_peak_bytes": peak_rss_bytes(),
            "ticks": grid.ticks,
            "late_ticks": grid.late_ticks,
            "late_max_s": round(grid.late_max_s, 6),
            "missed_ticks": grid.missed_ticks,
            "rows": stats.rows,
            "dropped_rows": stats.dropped_rows,
            "drop_reason": stats.drop_reason,
            "bytes_written": stats.bytes_written,
            "collectors": self._usage_facts(),
            "waits_passes": self._waits.passes if self._waits else 0,
            "waits_hz": self.governor.pace.waits_hz,
            "governor": self.governor.to_dict(),
            "sealing": {"runs": self._sealing.runs, "failures": self._sealing.failures},
            "hook": self.rings.counts(),
        }

    def _usage_facts(self) -> dict[str, Any]:
        usages = {name: runner.usage for name, runner in self.runners.items()}
        usages |= self._housekeeping
        if self._waits is not None:
            usages["waits passes"] = self._waits_usage
        return {name: usage.to_dict() for name, usage in usages.items()}


def _mount_of(path: str | None, proc_root: Path) -> str | None:
    """Mount point a folder lies on, by name only: touching it could hang."""
    mount = read_mounts(proc_root).of_path(path) if path else None
    return mount.mount_point if mount is not None else None
