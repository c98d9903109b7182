"""F22: the host gives the job too little CPU.

What it flags
-------------
Training waits for batches to be prepared while its processes are kept from running: a CPU quota
throttles them, or they queue for a CPU.

Why it matters
--------------
Seen from the GPU it looks like slow storage. More workers make it worse, for they share the same
cores, and faster storage changes nothing.

Evidence
--------
Seconds in which the control group's quota throttled the job; time in which tasks of the job (else
of the node) were ready and found no CPU (PSI ``cpu`` some); ranks and workers against the node's
CPUs. The loss itself is the share of data waits in which the loader's processes computed or were
ready to (F01).

What to do
----------
Ask for more CPUs per task, or let fewer workers share those there are; then make the preparation
cheaper. Look for other load on the node where the job's own group shows no pressure.

Known false alarms
------------------
Pressure of the node may be another job's where the job has no control group of its own; the finding
says which it was. A quota that throttles for moments while workers start is no lack. Without a loss
pressure alone says nothing: a busy node is a well-used one. A quota that throttles a job which does
not wait for data is told as information only.

Thresholds
----------
``thresholds.cpu_throttled_share`` (10 % of the seconds of training) or
``thresholds.cpu_pressure_share`` (30 % of training); and 5 % of training GPU time lost to
preparation, which no key changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.allotted import cpus_of, workers_by_rank
from slurm_io.analysis.facts import ranks_of
from slurm_io.analysis.host_rows import HostRows, rows_between
from slurm_io.analysis.inputs import NodeView
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rule_limits import HostCpu
from slurm_io.analysis.rules.base import (
    RULES,
    Answer,
    Evidence,
    Finding,
    Needs,
    Place,
    no_rows,
    shortness,
    sure,
)
from slurm_io.analysis.where import find_holders

_OWN = (
    "more CPUs per task, or fewer workers on those there are; more workers on the same CPUs make "
    "it worse"
)
_FOREIGN = (
    "other load takes the node's CPUs, for this job's processes are fewer than those: look what "
    "runs beside it, or ask for the whole node"
)
_WHOLE_NODE = "#SBATCH --exclusive"
_CGROUP = ("path", "cpu_ns", "throttled_periods", "psi_cpu_some_ns")
_NODE = ("psi_cpu_some_ns",)


@dataclass(frozen=True)
class _Supply:
    """One node in training. Shares are of its seconds; None = not told. `cores`: what the quota
    allows where it throttled, else what the job may run on, else all of the node's, `node_cores`;
    `wanted`: ranks and their workers.
    """

    node: str
    throttled_share: float | None
    pressure_share: float | None
    pressure_is_ours: bool
    cores: float | None
    node_cores: int | None
    is_quota: bool
    ranks: int
    workers: int | None

    @property
    def wanted(self) -> int | None:
        return None if self.workers is None else self.ranks + self.workers


@RULES.register("f22_cpu_starved")
class CpuStarved:
    """The host gives the job too little CPU."""

    code = "F22"
    title = "too few host CPUs for the loader"
    needs: Needs = "watch"

    def judge(self, picture: Picture) -> Answer:
        """Fires where processes are kept from running and training waits for what they prepare."""
        limits = picture.thresholds.rules.cpu
        nodes = _supplies(picture, limits)
        if not nodes:
            is_known = picture.watch.is_training and not _loses(picture)
            return Answer("quiet", _no_loss(picture)) if is_known else no_rows("cgroup")
        throttled = [one for one in nodes if (one.throttled_share or 0) >= limits.throttled_share]
        pressed = [one for one in nodes if (one.pressure_share or 0) >= limits.pressure_share]
        if _loses(picture) and (throttled or pressed):
            return Answer("fired", findings=(_finding(picture, throttled, pressed, limits),))
        if throttled:
            return Answer("fired", findings=(_finding(picture, throttled, [], limits),))
        if not picture.watch.is_training and pressed:
            why = "tasks queued for a CPU; without a hook or stacks nobody saw what it cost"
            return Answer("not enough evidence", why)
        if picture.watch.is_training and not _loses(picture):
            return Answer("quiet", _no_loss(picture))
        return Answer("quiet", "neither a quota nor a lack of CPUs held the loader's processes up")


def _loses(picture: Picture) -> bool:
    limit = picture.thresholds.shares.data_cpu
    if picture.losses.share("cpu") < limit or not picture.is_sure("cpu", limit):
        return False
    return picture.samples_of("cpu") >= picture.thresholds.enough.cause_samples


def _no_loss(picture: Picture) -> str:
    return f"waiting for preparation took {picture.losses.share('cpu'):.1%} of training"


def _supplies(picture: Picture, limits: HostCpu) -> list[_Supply]:
    spans = picture.watch.spans
    groups = rows_between(picture.tables, spans, "cgroup", _CGROUP)
    whole_node = rows_between(picture.tables, spans, "node", _NODE)
    by_group = _by_group(groups, limits)
    by_node = _pressure(whole_node.rows, ["node"], limits)
    names = sorted({*by_group, *by_node})
    found = [_supply(picture, name, by_group.get(name), by_node.get(name)) for name in names]
    return [one for one in found if (one.throttled_share, one.pressure_share) != (None, None)]


def _by_group(read: HostRows, limits: HostCpu) -> dict[str, tuple[float | None, ...]]:
    """node -> (throttled share, pressure share, quota in cores) of its most throttled group."""
    cores = pl.col("cpu_ns") / pl.col("interval_ns")
    hit = pl.col("throttled_periods") > 0
    found = (
        read.rows.group_by("node", "path")
        .agg(
            pl.len().alias("rows"),
            hit.mean().alias("throttled"),
            _some_share(),
            cores.filter(hit).quantile(0.95).alias("quota"),
        )
        .filter(pl.col("rows") >= limits.least_rows)
        .sort("node", "throttled", nulls_last=True)
    )
    return {
        row["node"]: (row["throttled"], row["pressure"], row["quota"])
        for row in found.iter_rows(named=True)
    }


def _pressure(rows: pl.DataFrame, keys: list[str], limits: HostCpu) -> dict[str, float | None]:
    found = rows.group_by(keys).agg(pl.len().alias("rows"), _some_share())
    found = found.filter(pl.col("rows") >= limits.least_rows)
    return dict(found.select("node", "pressure").iter_rows())


def _some_share() -> pl.Expr:
    """Stalled time over time, of the rows that tell it."""
    told = pl.col("psi_cpu_some_ns").is_not_null()
    stalled = pl.col("psi_cpu_some_ns").filter(told).sum()
    covered = pl.col("interval_ns").filter(told).sum()
    return pl.when(covered > 0).then(stalled / covered).alias("pressure")


def _supply(
    picture: Picture,
    name: str,
    group: tuple[float | None, ...] | None,
    node_pressure: float | None,
) -> _Supply:
    throttled, pressure, quota = group if group is not None else (None, None, None)
    view, cpus = picture.store.nodes[name], cpus_of(picture, name)
    has = cpus.job if cpus.job is not None else cpus.node
    return _Supply(
        node=name,
        throttled_share=throttled,
        pressure_share=pressure if pressure is not None else node_pressure,
        pressure_is_ours=pressure is not None,
        cores=quota if throttled and quota else has,
        node_cores=cpus.node,
        is_quota=bool(throttled and quota),
        ranks=cpus.ranks,
        workers=_workers(view),
    )


def _workers(view: NodeView) -> int | None:
    """Workers of the node's ranks, each rank's largest loader counted; None = no loader told."""
    most = workers_by_rank(view)
    return sum(most.values()) if most and ranks_of(view) else None


def _finding(
    picture: Picture, throttled: list[_Supply], pressed: list[_Supply], limits: HostCpu
) -> Finding:
    loses = _loses(picture)
    tight = [
        one
        for one in {each.node: each for each in (*pressed, *throttled)}.values()
        if one.wanted is not None and one.cores is not None and one.wanted > one.cores
    ]
    holders = find_holders(picture.losses, picture.timeline, ("cpu",)) if loses else ()
    share = picture.losses.share("cpu")
    evidence = [
        *_throttling(throttled, limits),
        *_queueing(pressed, limits),
        *_crowding(tight),
        *([] if not picture.watch.is_training else [Evidence(
            f"waiting for preparation took {share:.1%} of training GPU time",
            "data_cpu_share", share, picture.thresholds.shares.data_cpu,
        )]),
    ]  # fmt: skip
    # The node is crowded, and not by what this job started: other load takes the CPUs.
    foreign = not throttled and not tight and not any(one.pressure_is_ours for one in pressed)
    least = min((throttled or pressed), key=lambda one: one.cores or 1e9)
    return Finding(
        rule="F22",
        severity="warn" if loses else "info",
        confidence=sure(bool(throttled) + bool(pressed) + bool(tight)),
        title="the loader's processes are kept from running: too few CPUs"
        if loses
        else "a CPU quota throttles the job",
        lost_gpu_s=None,  # part of what F01 counts
        where=Place(
            nodes=tuple(sorted({one.node for one in (*throttled, *pressed)})),
            ranks=tuple(
                sorted(one.rank for one in holders if one.rank is not None and one.share >= 0.10)
            ),
        ),
        evidence=(*evidence, *shortness(picture)),
        remedy=_FOREIGN if foreign else _OWN,
        commands=(_WHOLE_NODE,) if foreign else _commands(least),
        elsewhere=loses,
    )


def _throttling(nodes: list[_Supply], limits: HostCpu) -> list[Evidence]:
    if not nodes:
        return []
    worst = max(nodes, key=lambda one: one.throttled_share or 0.0)
    share = worst.throttled_share or 0.0
    quota = f" at about {worst.cores:.1f} CPUs" if worst.is_quota else ""
    text = f"a CPU quota throttled the job in {share:.0%} of the seconds on {worst.node}{quota}"
    return [Evidence(text, "cpu_throttled_share", share, limits.throttled_share)]


def _queueing(nodes: list[_Supply], limits: HostCpu) -> list[Evidence]:
    if not nodes:
        return []
    worst = max(nodes, key=lambda one: one.pressure_share or 0.0)
    share = worst.pressure_share or 0.0
    whose = "the job" if worst.pressure_is_ours else "the node, other jobs' included,"
    text = (
        f"tasks of {whose} were ready and found no CPU for {share:.0%} of the time on {worst.node}"
    )
    return [Evidence(text, "cpu_pressure_share", share, limits.pressure_share)]


def _crowding(nodes: list[_Supply]) -> list[Evidence]:
    found = []
    for one in nodes[:1]:
        ranks = f"{one.ranks} rank{'s' * (one.ranks != 1)}"
        text = f"{ranks} and {one.workers} workers on {one.node} share {one.cores:.0f} CPUs"
        found.append(Evidence(text, "processes_per_node", one.wanted, one.cores))
    return found


def _commands(one: _Supply) -> tuple[str, ...]:
    """Workers for the CPUs there are, and CPUs for the workers there are."""
    ranks = max(1, one.ranks)
    found = []
    if one.cores is not None:
        workers = max(1, int(one.cores // ranks) - 1)
        found.append(f"DataLoader(..., num_workers={workers})  # for {one.cores:.0f} CPUs")
    if one.workers is not None:
        each = 1 + max(1, -(-one.workers // ranks))
        if one.node_cores is None or each * ranks <= one.node_cores:
            found.append(f"#SBATCH --cpus-per-task={each}  # one for the rank, one for each worker")
    return (*found, "export OMP_NUM_THREADS=1  # libraries in workers start a thread for every CPU")
