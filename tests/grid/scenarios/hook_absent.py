"""The hook is not there, and stacks stand for it."""

from __future__ import annotations

from tests.grid.model import (
    BLAMES_STORAGE,
    DATA,
    F01,
    NOT_ILL,
    RULES,
    STORAGE,
    Place,
    Scenario,
    slow_reads,
    steps,
)

F04 = frozenset({"F04"})
SLOW_DATA: frozenset[Place] = frozenset({"slow_data"})
# Some hundred looks at a run of two minutes leave this much to chance; the report prints its range.
BY_STACKS = 0.05
SCENARIOS = (
    Scenario(
        name="hook-absent-slow-storage",
        why="As slow-read-2-workers, seen by stacks alone.",
        train=steps(4000, batch=4, workers=2),
        verdicts=STORAGE,
        fired=F01,
        quiet=F04,
        slow=slow_reads(0.025),
        slow_places=DATA,
        tolerance=BY_STACKS,
        hook=False,
        is_long=True,
    ),
    Scenario(
        name="hook-absent-cpu-decode",
        why="As cpu-prep-2-workers, seen by stacks alone.",
        train=steps(1500, compute_ms=20, batch=4, workers=2, reader="cpu", item_ms=20),
        verdicts=frozenset({"cpu-prep", "not-storage"}),
        quiet=BLAMES_STORAGE,
        tolerance=BY_STACKS,
        hook=False,
        decoy=True,
        is_long=True,
    ),
    Scenario(
        name="hook-absent-fast",
        why="As healthy, seen by stacks alone: few windows, but no process ever waits for storage.",
        train=steps(4000, compute_ms=50, batch=4, workers=2),
        verdicts=NOT_ILL,
        quiet=RULES,
        tolerance=BY_STACKS,
        hook=False,
        decoy=True,
        is_long=True,
    ),
    Scenario(
        name="hook-absent-0-workers",
        why="As slow-read-0-workers by stacks alone: the rank's samples mix reads and training.",
        train=steps(1900, batch=1),
        verdicts=STORAGE,
        fired=F01,
        quiet=F04,
        slow=slow_reads(0.02),
        slow_places=DATA,
        tolerance=BY_STACKS,
        hook=False,
        is_long=True,
    ),
    Scenario(
        name="hook-absent-sleeping-loader",
        why="As sleeping-loader, seen by stacks alone.",
        train=steps(1600, batch=2, workers=1, reader="sleep", item_ms=25),
        verdicts=frozenset({"not-proven"}),
        quiet=BLAMES_STORAGE,
        tolerance=BY_STACKS,
        hook=False,
        decoy=True,
        is_long=True,
    ),
    Scenario(
        name="hook-absent-two-ranks-one-slow",
        why="As two-ranks-one-slow, seen by stacks alone: the other rank sits in the all-reduce.",
        train=steps(2600, batch=1, slow_rank=1),
        verdicts=STORAGE,
        fired=F01,
        quiet=F04,
        slow=slow_reads(0.025),
        slow_places=SLOW_DATA,
        ranks=2,
        tolerance=BY_STACKS,
        hook=False,
        is_long=True,
    ),
)
