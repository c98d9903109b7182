"""F21: ranks wait in a collective for one that computes longer, not for data.

What it flags
-------------
Stacks find most ranks of a synchronous job in a collective, and one rank seldom: it comes last to
every exchange, though it does not wait for data.

Why it matters
--------------
GPUs of waiting ranks look busy (the exchange spins) and no loader waits, so the loss is invisible
in utilisation and is easily laid on the file system. Faster storage changes nothing.

Evidence
--------
Looks at each rank's stack (py-spy): the share that found it in a collective. The straggler has a
third or less of what the others have (median). Data waits and saves of the hook are compared with
it: they must be the smaller part.

What to do
----------
Look at that rank's GPU and node first (F20: heat, power, PCIe; other processes on the GPU), then at
its part of the work: longer sequences, more experts, an extra task such as logging or evaluating on
rank 0.

Known false alarms
------------------
Stages of a pipeline wait unequally by design, the first and the last most. An exchange that is slow
for all (network) shows in all ranks alike: then nobody stands out and the rule is quiet. A rank
that waits for data makes the others wait as well: then F01 and F15 speak. Without stacks nothing is
said.

Thresholds
----------
``thresholds.collective_share`` (20 % of the looks at the other ranks, median); three times as often
as the straggler; at least three ranks and 50 looks at each.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import polars as pl

from slurm_io.analysis.holding import OWN_CAUSES
from slurm_io.analysis.host_rows import rows_in_training
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rule_limits import Collective
from slurm_io.analysis.rules.base import (
    RULES,
    Answer,
    Evidence,
    Finding,
    Needs,
    Place,
    no_rows,
    shortness,
)

_COLUMNS = ("rank", "pid", "role", "state", "samples")


@dataclass(frozen=True)
class _Seen:
    """One rank: looks at it, and the share that found it in a collective."""

    node: str
    rank: int
    looks: int
    share: float


@RULES.register("f21_collective_straggler")
class CollectiveStraggler:
    """Ranks wait in a collective for one that comes last."""

    code = "F21"
    title = "ranks wait in collectives for one of them, not for data"
    needs: Needs = "steps"

    def judge(self, picture: Picture) -> Answer:
        """Fires when one rank is clearly less often in a collective than all others."""
        limits = picture.thresholds.rules.collective
        largest = max((len(unit.procs) for unit in picture.losses.units), default=0)
        if largest < limits.least_ranks:
            return Answer("quiet", "fewer than three ranks train in lockstep")
        ranks = _ranks(picture, limits)
        if len(ranks) < limits.least_ranks:
            return no_rows("stacks")
        last, others = ranks[0], ranks[1:]
        usual = median(one.share for one in others)
        if usual < limits.share or last.share * limits.ratio > usual:
            return Answer("quiet", f"{usual:.0%} of the looks found ranks in a collective")
        lost = picture.losses.share(*OWN_CAUSES)
        if lost >= usual / 2:
            return Answer("quiet", f"they wait for a rank that waits itself ({lost:.0%}): see F01")
        return Answer("fired", findings=(_finding(picture, last, len(ranks), usual, lost, limits),))


def _ranks(picture: Picture, limits: Collective) -> list[_Seen]:
    """Ranks with enough looks, the one seldom in a collective first."""
    read = rows_in_training(picture.tables, picture.timeline, "stacks", _COLUMNS)
    mine = read.rows.filter(pl.col("role") == "rank").drop_nulls(["rank", "state", "samples"])
    waiting = pl.col("samples").filter(pl.col("state") == "collective").sum()
    found = (
        mine.group_by("node", "rank")
        .agg(pl.col("samples").sum().alias("looks"), waiting.alias("waiting"))
        .filter(pl.col("looks") >= limits.least_looks)
        .with_columns((pl.col("waiting") / pl.col("looks")).alias("share"))
        .sort("share", "rank")
    )
    return [
        _Seen(row["node"], row["rank"], row["looks"], row["share"])
        for row in found.iter_rows(named=True)
    ]


def _finding(
    picture: Picture, last: _Seen, ranks: int, usual: float, lost: float, limits: Collective
) -> Finding:
    evidence = (
        Evidence(
            f"{usual:.0%} of the looks found the other ranks in a collective (median of "
            f"{ranks - 1}), {last.share:.0%} of {last.looks} found rank {last.rank} there",
            "collective_share", usual, limits.share,
        ),
        Evidence(
            f"waits for data and saves took {lost:.1%} of training GPU time",
            "lost_share", lost, usual / 2,
        ),
        *shortness(picture),
    )  # fmt: skip
    return Finding(
        rule="F21",
        severity="warn",
        confidence="likely",  # one signal: stacks
        title=f"the other ranks wait for rank {last.rank} on {last.node}, which computes longer",
        lost_gpu_s=None,
        where=Place(nodes=(last.node,), ranks=(last.rank,)),
        evidence=evidence,
        remedy="look at that rank's GPU and node, then at its part of the work (longer sequences, "
        "extra tasks on rank 0)",
        commands=(
            f"srun --overlap -w {last.node} nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE",
            f"py-spy dump --pid PID_OF_RANK_{last.rank}",
        ),
        elsewhere=True,
    )
