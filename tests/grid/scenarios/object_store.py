"""Datasets that come by HTTP from an object store."""

from __future__ import annotations

from tests.grid.model import F01, LATE_HANDOVER, RULES, STORAGE, Scenario, steps

SCENARIOS = (
    Scenario(
        name="slow-object-store",
        why="Each GET takes 50 ms until its first byte; two workers, four objects a batch.",
        train=steps(160, compute_ms=60, batch=4, workers=2, reader="object"),
        verdicts=STORAGE,
        fired=F01,
        quiet=frozenset({"F04", "F16"}),
        object_s=0.05,
    ),
    Scenario(
        name="fast-object-store",
        why="Decoy: the same store near by; the workers keep ahead of the training loop.",
        train=steps(compute_ms=60, batch=2, workers=2, reader="object"),
        verdicts=frozenset({"healthy"}),
        quiet=RULES,
        object_s=0.001,
        decoy=True,
        is_long=True,
        unproven_when_busy=LATE_HANDOVER,
    ),
)
