"""Synchronous jobs: one slow rank, one slow node, one that computes longer than the others."""

from __future__ import annotations

from tests.grid.model import (
    BLAMES_STORAGE,
    F01,
    NOT_ILL,
    STORAGE,
    Place,
    Scenario,
    slow_reads,
    steps,
)

F04 = frozenset({"F04"})
SLOW_DATA: frozenset[Place] = frozenset({"slow_data"})
SCENARIOS = (
    Scenario(
        name="two-ranks-one-slow",
        why="Ranks in lockstep; one reads slow storage, both lose the same time.",
        train=steps(200, batch=1, slow_rank=1),
        verdicts=STORAGE,
        fired=F01,
        quiet=F04,
        slow=slow_reads(0.025),
        slow_places=SLOW_DATA,
        ranks=2,
    ),
    Scenario(
        name="three-ranks-one-slow",
        why="As two-ranks-one-slow, with ranks enough to say that one holds the others.",
        train=steps(120, compute_ms=80, batch=1, slow_rank=1),
        verdicts=STORAGE,
        fired=frozenset({"F01", "F15"}),
        quiet=F04,
        named={"ranks": 1},
        slow=slow_reads(0.08),
        slow_places=SLOW_DATA,
        ranks=3,
        is_long=True,
    ),
    Scenario(
        name="one-slow-node",
        why="Two nodes of two ranks, a sampler on each; the second node's mount is slow.",
        train=steps(120, compute_ms=80, batch=1),
        verdicts=STORAGE,
        fired=frozenset({"F01", "F15"}),
        quiet=F04,
        named={"nodes": "n2"},
        slow=slow_reads(0.08),
        slow_places=SLOW_DATA,
        ranks=4,
        nodes=2,
        is_long=True,
    ),
    Scenario(
        name="collective-straggler",
        why="Decoy: one of three ranks computes 80 ms longer, the others wait in the all-reduce.",
        train=steps(450, compute_ms=20, batch=1, late_rank=2, late_ms=80),
        verdicts=NOT_ILL,
        fired=frozenset({"F21"}),
        quiet=F01 | BLAMES_STORAGE,
        named={"ranks": 2},
        ranks=3,
        stacks=True,
        decoy=True,
        is_long=True,
    ),
)
