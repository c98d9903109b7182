"""Checkpoints by every way of saving, what they do to reads, room for them, and loading one."""

from __future__ import annotations

from tests.grid.model import (
    CHECKPOINT,
    DATA,
    F01,
    LATE_HANDOVER,
    MIB,
    NOT_ILL,
    RULES,
    STORAGE,
    Scenario,
    steps,
)
from tests.labs.slowfs_settings import SlowFsSettings

SLOW_WRITES = SlowFsSettings(bandwidth_bytes_per_s=16 * MIB)
SAVES = frozenset({"checkpoint_dir"})
F04 = frozenset({"F04"})
SCENARIOS = (
    Scenario(
        name="checkpoint-slow",
        why="8 MiB saved synchronously at 16 MiB/s every 40 steps; data fast, steps long.",
        train=steps(compute_ms=60, batch=2, workers=1, checkpoint_every=40, checkpoint_mib=8),
        verdicts=CHECKPOINT,
        fired=F04,
        quiet=F01,
        slow=SLOW_WRITES,
        slow_places=SAVES,
    ),
    Scenario(
        name="checkpoint-fast",
        why="The same to a local disk, half as much and half as often: under 1 % of the time.",
        train=steps(compute_ms=50, batch=2, workers=1, checkpoint_every=100, checkpoint_mib=4),
        verdicts=frozenset({"healthy"}),
        quiet=RULES,
        decoy=True,
        is_long=True,
        unproven_when_busy=LATE_HANDOVER,
    ),
    Scenario(
        name="checkpoint-rank-0",
        why="Rank 0 saves 8 MiB for both ranks; the other one waits in the next all-reduce.",
        train=steps(
            160, compute_ms=60, batch=1, workers=1, checkpoint_every=40, checkpoint_mode="rank0",
        ),
        verdicts=CHECKPOINT,
        fired=F04,
        quiet=F01,
        named={"ranks": 0},
        slow=SLOW_WRITES,
        slow_places=SAVES,
        ranks=2,
        is_long=True,
    ),
    Scenario(
        name="checkpoint-sharded",
        why="A distributed checkpoint, 8 MiB from each of two ranks over one slow mount.",
        train=steps(
            160, compute_ms=60, batch=1, workers=1, checkpoint_every=40, checkpoint_mode="dcp",
        ),
        verdicts=CHECKPOINT,
        fired=F04,
        quiet=F01 | {"F03"},
        slow=SLOW_WRITES,
        slow_places=SAVES,
        ranks=2,
        is_long=True,
    ),
    Scenario(
        name="checkpoint-async",
        why="Decoy: the same sharded checkpoint written behind training; only its copy blocks.",
        train=steps(
            200, compute_ms=60, batch=1, workers=1, checkpoint_every=60,
            checkpoint_mode="dcp-async", checkpoint_mib=4,
        ),
        verdicts=NOT_ILL,
        quiet=F01 | {"F03"},
        slow=SLOW_WRITES,
        slow_places=SAVES,
        ranks=2,
        decoy=True,
        is_long=True,
        unproven_when_busy=LATE_HANDOVER,
    ),
    Scenario(
        name="checkpoint-on-a-thread",
        why="Decoy: torch.save of a copy on a thread of its own; training never waits for it.",
        train=steps(
            220, compute_ms=60, batch=2, workers=1, checkpoint_every=40, checkpoint_mode="thread",
        ),
        verdicts=NOT_ILL,
        quiet=RULES,
        slow=SLOW_WRITES,
        slow_places=SAVES,
        decoy=True,
        is_long=True,
        unproven_when_busy=LATE_HANDOVER,
    ),
    Scenario(
        name="checkpoint-during-reads",
        why="A background save takes the bandwidth of the mount that the batches come from.",
        train=steps(
            320, compute_ms=30, batch=2, checkpoint_every=40, checkpoint_mib=24,
            checkpoint_mode="thread",
        ),
        verdicts=STORAGE,
        fired=F01,
        quiet=F04,
        slow=SLOW_WRITES,
        slow_places=DATA | SAVES,
        is_long=True,
    ),
    Scenario(
        name="room-runs-out",
        why="Every save takes 8 MiB of a file system of 28: behind the third no other one fits.",
        # A minute, for space is looked at every 30 s.
        train=steps(
            1150, compute_ms=50, batch=2, workers=1, checkpoint_every=300, checkpoint_mib=8,
        ),
        verdicts=NOT_ILL | CHECKPOINT,
        fired=frozenset({"F05"}),
        quiet=F01 | {"F02"},
        checkpoint_bytes=28 * MIB,
        is_long=True,
        unproven_when_busy=LATE_HANDOVER,
    ),
    Scenario(
        name="slow-load",
        why="Before training 14 MiB are loaded at 1 MiB/s; training itself is well.",
        train=steps(compute_ms=50, batch=2, workers=2),
        verdicts=NOT_ILL,
        fired=frozenset({"F06"}),
        quiet=F01 | F04 | {"F02"},
        slow=SlowFsSettings(bandwidth_bytes_per_s=MIB),
        slow_places=frozenset({"load"}),
        decoy=True,
        is_long=True,
        unproven_when_busy=LATE_HANDOVER,
    ),
)  # fmt: skip
