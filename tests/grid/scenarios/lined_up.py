"""Five minutes and more: what only shows over time, drops beside spikes and saves beside reads."""

from __future__ import annotations

from itertools import accumulate

from tests.grid.model import (
    BLAMES_STORAGE,
    CHECKPOINT,
    DATA,
    F01,
    LATE_HANDOVER,
    MIB,
    NOT_ILL,
    RULES,
    STORAGE,
    Change,
    Disk,
    Limits,
    Place,
    Scenario,
    slow_reads,
    steps,
)
from tests.labs.slowfs_settings import SlowFsSettings

SAVES: frozenset[Place] = frozenset({"checkpoint_dir"})
F04 = frozenset({"F04"})
USUAL_S, SPIKE_S, SPIKE_LASTS_S = 0.001, 0.45, 2.5
# No two of them alike: what comes at an even pace meets as well one turn later.
BETWEEN_S = (31, 17, 41, 23, 37, 19, 29, 43, 27)


def bursts() -> tuple[Change, ...]:
    """Reads become slow and fast again, nine times in five minutes."""
    return tuple(
        change
        for begin_s in accumulate(BETWEEN_S)
        for change in (
            Change(begin_s, {"read_latency_s": SPIKE_S}),
            Change(begin_s + SPIKE_LASTS_S, {"read_latency_s": USUAL_S}),
        )
    )


SCENARIOS = (
    Scenario(
        name="drops-beside-spikes",
        why="A disk answers slowly for some seconds now and then, and throughput drops with it.",
        train=steps(3150, compute_ms=96, batch=1, reader="pieces", pieces=1),
        verdicts=STORAGE,
        fired=F01,
        quiet=F04,
        told={"alignment.state": "aligned"},
        disk=Disk(slow_reads(USUAL_S)),
        changes=bursts(),
        files=1,
        file_bytes=128 * MIB,
        is_long=True,
    ),
    Scenario(
        name="drops-beside-nothing",
        why="An index grows and is rebuilt now and then; the disk is as fast as ever meanwhile.",
        train=steps(
            3150, compute_ms=92, batch=1, reader="pieces", pieces=1, index_kib=128, index_ms=14,
            pause_every=130, pause_ms=450,
        ),
        verdicts=NOT_ILL,
        fired=frozenset({"F09"}),
        quiet=F01 | BLAMES_STORAGE,
        told={"alignment.state": "apart"},
        disk=Disk(slow_reads(USUAL_S)),
        files=1,
        file_bytes=128 * MIB,
        limits=Limits(),
        decoy=True,
        is_long=True,
    ),
    Scenario(
        name="saves-beside-reads",
        why="Every 13 s a save is written behind training, over the mount the batches come from.",
        train=steps(
            2300, compute_ms=60, batch=2, checkpoint_every=140, checkpoint_mib=48,
            checkpoint_mode="thread",
        ),
        verdicts=STORAGE,
        fired=F01 | {"F25"},
        quiet=F04,
        slow=SlowFsSettings(bandwidth_bytes_per_s=12 * MIB),
        slow_places=DATA | SAVES,
        is_long=True,
    ),
    Scenario(
        name="saves-too-often",
        why="A blocking save of half a second every 10 s: what each costs and how often, told.",
        train=steps(
            2900, compute_ms=98, batch=2, workers=1, checkpoint_every=100, checkpoint_mib=8,
        ),
        verdicts=CHECKPOINT,
        fired=F04,
        quiet=RULES - F04 - {"F03", "F22"},
        told={
            "checkpoints.count": 29,
            "checkpoints.interval.now_steps": 100.0,
            "checkpoints.interval.reason":
                "how often something fails is not known (thresholds.node_mtbf_h)",
        },
        slow=SlowFsSettings(bandwidth_bytes_per_s=16 * MIB),
        slow_places=SAVES,
        is_long=True,
        unproven_when_busy=LATE_HANDOVER,
    ),
)  # fmt: skip
