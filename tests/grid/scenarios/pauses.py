"""Decoys: training stands still now and then, or is slow, and storage has no part in it."""

from __future__ import annotations

from tests.grid.model import (
    BLAMES_STORAGE,
    F01,
    LATE_HANDOVER,
    NOT_ILL,
    RULES,
    Place,
    Scenario,
    slow_reads,
    steps,
)

VALIDATION: frozenset[Place] = frozenset({"validation_data"})
SCENARIOS = (
    Scenario(
        name="gc-pauses",
        why="The garbage collector stops the training thread every 12 steps.",
        train=steps(compute_ms=40, batch=2, workers=1, gc_every=12, gc_objects=50_000),
        verdicts=NOT_ILL,
        quiet=RULES - {"F19"},  # the collections themselves are told, from 3 % on
        decoy=True,
        unproven_when_busy=LATE_HANDOVER,
    ),
    Scenario(
        name="validation-slow",
        why="A validation loop reads slow storage now and then, training never waits.",
        train=steps(compute_ms=50, batch=2, workers=1, validate_every=60, validation_batches=6),
        verdicts=NOT_ILL,
        quiet=BLAMES_STORAGE,
        slow=slow_reads(0.02),
        slow_places=VALIDATION,
        decoy=True,
        unproven_when_busy=LATE_HANDOVER,
    ),
    Scenario(
        name="compile-pauses",
        why="Every 70 steps a recompilation of 2.5 s on the training thread.",
        train=steps(230, compute_ms=40, batch=2, workers=1, pause_every=70, pause_ms=2500),
        verdicts=NOT_ILL,
        quiet=RULES,
        decoy=True,
        is_long=True,
        unproven_when_busy=LATE_HANDOVER,
    ),
    Scenario(
        name="copies-to-the-device",
        why="Copying each batch takes the training thread 30 ms, behind the loader.",
        train=steps(compute_ms=20, batch=2, workers=1, transfer_ms=30),
        verdicts=NOT_ILL,
        quiet=RULES,
        decoy=True,
        is_long=True,
        unproven_when_busy=LATE_HANDOVER,
    ),
    Scenario(
        name="sleeping-loader",
        why="The loader sleeps in neither storage nor CPU: no cause may be named.",
        train=steps(batch=2, workers=1, reader="sleep", item_ms=25),
        verdicts=frozenset({"not-proven"}),
        quiet=BLAMES_STORAGE,
        decoy=True,
    ),
    Scenario(
        name="too-short",
        why="Twelve steps on slow storage: too few for anything to be said.",
        train=steps(12, batch=1),
        verdicts=frozenset({"not-proven"}),
        quiet=F01 | BLAMES_STORAGE,
        slow=slow_reads(0.05),
        slow_places=frozenset({"data"}),
        share_is_known=False,
        decoy=True,
        is_long=True,
    ),
)
