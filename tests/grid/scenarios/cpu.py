"""Decoys: batches that are late because the CPU made them late."""

from __future__ import annotations

from tests.grid.model import BLAMES_STORAGE, CPU_PREP, Limits, Scenario, steps

SCENARIOS = (
    Scenario(
        name="cpu-prep-0-workers",
        why="20 ms of Python arithmetic before every step; the item is made from nothing.",
        train=steps(batch=1, reader="cpu", item_ms=20),
        verdicts=CPU_PREP,
        quiet=BLAMES_STORAGE,
        decoy=True,
        is_long=True,
    ),
    Scenario(
        name="cpu-prep-2-workers",
        why="Two workers, 80 ms of arithmetic a batch each, for steps of 25 ms.",
        train=steps(compute_ms=20, batch=4, workers=2, reader="cpu", item_ms=20),
        verdicts=CPU_PREP,
        quiet=BLAMES_STORAGE,
        decoy=True,
    ),
    Scenario(
        name="cpu-decode",
        why="Small files from a local disk, then 20 ms of decoding each.",
        train=steps(batch=1, decode_ms=20),
        verdicts=CPU_PREP,
        quiet=BLAMES_STORAGE,
        decoy=True,
        is_long=True,
    ),
    Scenario(
        name="few-cores",
        why="Four workers and their rank on a single core.",
        train=steps(600, compute_ms=20, batch=2, workers=4, reader="cpu", item_ms=20),
        verdicts=CPU_PREP,
        fired=frozenset({"F22"}),
        quiet=BLAMES_STORAGE,
        one_cpu=True,
        decoy=True,
        is_long=True,
    ),
    Scenario(
        name="cgroup-throttle",
        why="A quota of half a core: two workers stand still for most of every 100 ms.",
        train=steps(600, compute_ms=20, batch=2, workers=2, reader="cpu", item_ms=10),
        verdicts=CPU_PREP,
        fired=frozenset({"F22"}),
        quiet=BLAMES_STORAGE,
        limits=Limits(cpus=0.5),
        decoy=True,
        is_long=True,
    ),
    Scenario(
        name="slow-collate-in-main",
        why="No workers, and putting a batch together takes 20 ms of the training thread.",
        train=steps(batch=2, collate_ms=20),
        verdicts=CPU_PREP | {"pipeline"},
        quiet=BLAMES_STORAGE,
        decoy=True,
        is_long=True,
    ),
)
