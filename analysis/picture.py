"""All that is known of a job before anything is judged: what rules and the verdict look at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import polars as pl

from slurm_io.analysis.alignment.align import Alignment, align, hear_alignment
from slurm_io.analysis.bounds import Range, storage_range, with_checkpoint
from slurm_io.analysis.by_stacks import ByStacks, see_by_stacks
from slurm_io.analysis.causes import Causes, find_causes
from slurm_io.analysis.checkpoints.seen import Checkpointing, see_checkpoints
from slurm_io.analysis.clocks import (
    Offset,
    corrected,
    corrected_timeline,
    find_offsets,
    of_procs,
    shifts_ns,
)
from slurm_io.analysis.collectives import collective_slacks
from slurm_io.analysis.cpu_pressure import cpu_pressure
from slurm_io.analysis.followers import find_followers, without_waits_of
from slurm_io.analysis.gpu_side import GpuSide, find_gpu_side
from slurm_io.analysis.gpus import Gpus, count_gpus
from slurm_io.analysis.inputs import StoreView, Tables
from slurm_io.analysis.lockstep import find_units
from slurm_io.analysis.losses import Losses, add_up
from slurm_io.analysis.pieces import AMOUNTS
from slurm_io.analysis.read_sources import read_mounts
from slurm_io.analysis.reads import Reads, find_reads
from slurm_io.analysis.steps import find_steps
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.analysis.timeline import Timeline, read_timeline
from slurm_io.analysis.variance import StepVariance, step_variance
from slurm_io.analysis.watch import Watch, find_watch
from slurm_io.analysis.where import Where, find_where
from slurm_io.analysis.witnesses import LOCAL_FSTYPES, Witness, hear_witnesses

Confidence = Literal["proven", "likely", "not-proven"]
_SUMMED_UP = (*AMOUNTS, "lost_low_s", "next_start", "handover_s", "handover_lost_s")


@dataclass(frozen=True)
class Picture:
    """One job, measured. `data_storage` covers data waits, `storage` checkpoints too.

    `by_stacks`: what stacks tell of ranks without a hook. Where no rank had one
    (:attr:`is_hookless`) causes, losses and ranges are made from it; where some had, nothing is.
    """

    store: StoreView
    tables: Tables
    thresholds: Thresholds
    timeline: Timeline
    causes: Causes
    gpus: Gpus
    losses: Losses
    data_storage: Range
    storage: Range
    where: Where
    witnesses: tuple[Witness, ...]
    variance: StepVariance | None
    by_stacks: ByStacks | None
    alignment: Alignment
    reads: Reads | None = None
    clock_offsets: tuple[Offset, ...] = ()

    @cached_property
    def watch(self) -> Watch:
        """When the sampler's rows tell of training, or at least of the job."""
        return find_watch(self.store, self.timeline, self.by_stacks)

    @cached_property
    def checkpointing(self) -> Checkpointing | None:
        """What the saves in training took, wrote and disturbed; None without any."""
        return see_checkpoints(
            self.tables, self.timeline, self.causes, self.losses, self.thresholds, self.is_short
        )

    @property
    def is_hookless(self) -> bool:
        """Whether stacks stand for the hook: it timed no batch of this job."""
        return self.by_stacks is not None and not self.timeline.processes

    def is_sure(self, found: str, limit: float) -> bool:
        """Whether something reaches `limit` for certain. Hooks time it; stacks are samples, and the
        lower end of what they say must. `found`: see :class:`.by_stacks.ByStacks`."""
        if self.by_stacks is None or not self.is_hookless:
            return True
        return self.by_stacks.is_sure(found, limit)

    @property
    def loses_to_storage(self) -> bool:
        """Whether training is known to lose as much to data waits on storage as counts."""
        limit = self.thresholds.shares.data_storage
        return self.data_storage.value >= limit and self.is_sure("data_storage", limit)

    @property
    def steps(self) -> int:
        """Training steps of the longest process."""
        return max((process.steps for process in self.timeline.processes), default=0)

    @property
    def training_s(self) -> float:
        """Training time of the longest process."""
        return max((process.training_s for process in self.timeline.processes), default=0.0)

    @property
    def is_enough(self) -> bool:
        """Whether there is enough training to say anything."""
        enough = self.thresholds.enough
        return self.steps >= enough.verdict_steps and self.training_s >= enough.verdict_training_s

    @property
    def is_short(self) -> bool:
        """Enough to say something, less than the textbook's guard: the report says so."""
        enough = self.thresholds.enough
        return self.steps < enough.full_steps and self.training_s < enough.full_training_s

    @property
    def agreeing(self) -> tuple[Witness, ...]:
        """Witnesses that agree with storage, the wait samples included."""
        return tuple(witness for witness in self.witnesses if witness.agrees)

    @property
    def has_second_witness(self) -> bool:
        """Whether the wait samples say storage and one independent signal agrees."""
        names = {witness.name for witness in self.agreeing}
        return "waits" in names and len(names) > 1

    @property
    def few_witnesses(self) -> str:
        """Who agrees with storage where :attr:`has_second_witness` is not so, in words."""
        names = [witness.name for witness in self.agreeing]
        return f"only one witness agrees ({names[0]})" if names else "no witness agrees"

    @property
    def storage_confidence(self) -> Confidence:
        """proven: the wait samples and one independent signal; likely: one of them.

        With CUDA and no GPU-side measurement a loss that queued GPU work might have hidden whole
        is at most likely.
        """
        limit = self.thresholds.shares.data_storage
        if not self.agreeing or self.is_contradicted(self.data_storage.value, limit):
            return "not-proven"
        sure = (
            self.data_storage.low >= self.thresholds.shares.data_storage or not self.is_unmeasured
        )
        return "proven" if self.has_second_witness and sure else "likely"

    def is_contradicted(self, share: float, limit: float) -> bool:
        """Whether the driver saw so much work on the GPUs that a loss of `share` to data waits may
        lie below `limit`."""
        side = self.gpu_side
        return side is not None and share >= limit > share * side.room

    def samples_of(self, cause: str) -> float:
        """Passes of data waits that showed this cause."""
        return float(self.causes.evidence[cause].sum())

    @cached_property
    def gpu_side(self) -> GpuSide | None:
        """What the GPUs say of the waits; None where no hooked process used them."""
        return find_gpu_side(self.causes.rows, self.store)

    @property
    def is_unmeasured(self) -> bool:
        """CUDA was in use and the GPU's idle time is not known behind most of the waiting. Without
        a hook nobody measures it, and a job that has GPUs is taken to use them."""
        if self.is_hookless:
            return _has_gpus(self.store, self.tables)
        return self.gpu_side is not None and not self.gpu_side.is_measured

    @cached_property
    def cpus_are_short(self) -> float | None:
        """Share of training in which tasks of a node found no CPU, where it is as much as F22 asks
        for; else None."""
        share = cpu_pressure(self.tables, self.watch.spans)
        limit = self.thresholds.rules.cpu.pressure_share
        return share if share is not None and share >= limit else None

    @property
    def collections_share(self) -> float:
        """Share of training spent in garbage collections that a step waited for."""
        base = sum(process.training_s for process in self.timeline.processes)
        sizes = {unit.unit: len(unit.procs) for unit in self.losses.units}
        by_unit = self.losses.unit_steps.group_by("unit").agg(pl.col("gc_s").sum()).rows()
        lost = sum(gc_s * sizes[unit] for unit, gc_s in by_unit)
        return min(1.0, lost / base) if base > 0 else 0.0


def take_picture(store: StoreView, thresholds: Thresholds) -> Picture:
    """Read the store and measure everything."""
    tables = Tables(store)
    timeline = read_timeline(tables)
    causes = find_causes(tables, timeline, thresholds)
    steps = find_steps(causes.rows, timeline)
    units = find_units(store, timeline, steps, thresholds.lockstep)
    followers = find_followers(causes, units)
    if followers:
        causes = without_waits_of(causes, followers)
        steps = find_steps(causes.rows, timeline)
    offsets = find_offsets(steps, timeline, units)
    sure = [one for one in offsets if one.is_sure(thresholds.lockstep)]
    if sure:
        tables.clocks_ns = shifts_ns(sure)
        steps = corrected(steps, of_procs(timeline), sure)
        causes = replace(causes, rows=corrected(causes.rows, pl.col("node"), sure))
        timeline = corrected_timeline(timeline, sure)
    gpus = count_gpus(store, timeline, units)
    least_looks = thresholds.rules.collective.least_looks
    slacks = collective_slacks(tables, timeline, units, least_looks)
    losses = add_up(steps, causes.rows, timeline, units, gpus, thresholds.lockstep, slacks)
    # Of a long job each column is memory: what only the sums needed goes.
    steps = steps.select("proc", "step", "t0", "gross_s", "net_s", "broken")
    timeline = replace(timeline, rows=timeline.rows.drop("next_start"))
    causes = replace(causes, rows=causes.rows.drop(_SUMMED_UP))
    data = storage_range(losses, causes.evidence, thresholds)
    by_stacks = see_by_stacks(tables, timeline, store, thresholds)
    stands = by_stacks is not None and not timeline.processes and not by_stacks.refusal
    if by_stacks is not None and stands:
        causes = replace(by_stacks.causes.causes, rows=causes.rows)
        losses = by_stacks.losses
        data = _as_exposed(by_stacks, _has_gpus(store, tables))
    where = find_where(causes, losses, timeline)
    reads = find_reads(tables, timeline, causes, thresholds)
    aligned = align(
        tables, timeline, causes, steps, units, read_mounts(causes.samples, store), LOCAL_FSTYPES,
        thresholds.alignment,
    )  # fmt: skip
    witnesses = hear_witnesses(tables, causes, where.fstypes, thresholds, reads)
    return Picture(
        store=store,
        tables=tables,
        thresholds=thresholds,
        timeline=timeline,
        causes=causes,
        gpus=gpus,
        losses=losses,
        data_storage=data,
        storage=_with_saves(data, losses, by_stacks if stands else None),
        where=where,
        witnesses=(*witnesses, hear_alignment(aligned)),
        variance=step_variance(losses, thresholds.variance),
        reads=reads,
        by_stacks=by_stacks,
        clock_offsets=offsets,
        alignment=aligned,
    )


def _has_gpus(store: StoreView, tables: Tables) -> bool:
    asked_for = store.job.gpus_on_node if store.job is not None else None
    return bool(asked_for) or not tables.frame("gpu", ("ts_ns",)).is_empty()


def _as_exposed(by_stacks: ByStacks, has_gpus: bool) -> Range:
    """As :mod:`.exposure` has it: GPU work queued before a wait may have hidden as much of it as a
    step has work of its own, so the lower end is less by that."""
    seen = by_stacks.found["data_storage"]
    if not has_gpus:
        return seen
    own_work = 1 - by_stacks.found["data_wait"].value
    return Range(max(0.0, seen.low - own_work), seen.value, seen.high)


def _with_saves(data: Range, losses: Losses, by_stacks: ByStacks | None) -> Range:
    """Data waits and blocking checkpoints; by stacks checkpoints have an interval of their own."""
    if by_stacks is None:
        return with_checkpoint(data, losses.share("ckpt"))
    saves = by_stacks.found["ckpt"]
    # Each end at once is wider than it must be, and never too narrow.
    return Range(
        data.low + saves.low, min(1.0, data.value + saves.value), min(1.0, data.high + saves.high)
    )
