"""All scenarios of the grid: lab settings on one side, what the report must say on the other.

The truth of each is `tests.labs.train.storage_idle_share` over the training script's own stopwatch:
per step the part of the wait in which a read was blocked, at most the wait less the loader's
hand-over (CPU work is not in it), the slowest rank's counting for all ranks, plus blocking
checkpoints; divided by the training window, which opens when the first batch has arrived. Nothing
in it comes from the profiler. Designs that keep it unambiguous: one epoch, compute that hides
nothing, slow and fast delays far apart, reads that never hit a cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from slurm_io.analysis.rules.base import RULES as REGISTERED
from tests.labs.slowfs_settings import CacheMode, SlowFsSettings

KIB = 1024
MIB = 1024 * 1024
Place = Literal["data", "slow_data", "validation_data", "checkpoint_dir"]
NOT_ILL = frozenset({"healthy", "not-storage"})
RULES = frozenset(rule.code for rule in REGISTERED)


@dataclass(frozen=True)
class Scenario:
    """One run of the training lab under `slurm-io run`.

    `train` are train_job's options; `slow_places` say which of its folders lie on the slow mount.
    `verdicts` are the ones that are right; rules in `fired` must fire, those in `quiet` must not.
    The report's value may be off by `tolerance` (of training GPU-seconds) at most. Without `hook`
    it is switched off and stacks stand for it; those runs are longer, for windows come rarely.
    """

    name: str
    why: str
    train: Mapping[str, object]
    verdicts: frozenset[str]
    fired: frozenset[str] = frozenset()
    quiet: frozenset[str] = frozenset()
    slow: SlowFsSettings = field(default_factory=SlowFsSettings)
    slow_places: frozenset[Place] = frozenset()
    cache: CacheMode = "direct"
    ranks: int = 1
    files: int = 64
    file_bytes: int = 64 * KIB
    tolerance: float = 0.03
    hook: bool = True
    is_long: bool = False

    @property
    def needs_fuse(self) -> bool:
        """Whether it mounts slowfs."""
        return bool(self.slow_places)


def _steps(steps: int = 220, compute_ms: float = 30, **options: object) -> dict[str, object]:
    return {"steps": steps, "compute_ms": compute_ms, **options}


def _slow_data(read_latency_s: float, **others: float) -> SlowFsSettings:
    return SlowFsSettings(read_latency_s=read_latency_s, **others)  # type: ignore[arg-type]


DATA: frozenset[Place] = frozenset({"data"})
STORAGE = frozenset({"storage"})
F01 = frozenset({"F01"})

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="healthy",
        why="Files on a local disk, two workers ahead of the training loop: nothing to find.",
        train=_steps(compute_ms=50, batch=4, workers=2),
        verdicts=frozenset({"healthy"}),
        quiet=RULES,
    ),
    Scenario(
        name="slow-read-2-workers",
        why="Each worker needs 4 x 25 ms a batch, so the loop waits about 20 ms of every 50.",
        train=_steps(batch=4, workers=2),
        verdicts=STORAGE,
        fired=F01,
        quiet=frozenset({"F04"}),
        slow=_slow_data(0.025),
        slow_places=DATA,
    ),
    Scenario(
        name="slow-read-0-workers",
        why="The training thread itself sleeps 20 ms in read before every step.",
        train=_steps(batch=1),
        verdicts=STORAGE,
        fired=F01,
        quiet=frozenset({"F04"}),
        slow=_slow_data(0.02),
        slow_places=DATA,
    ),
    Scenario(
        name="slow-mmap-0-workers",
        why="Page faults in a mapped file: state D without any system call, rchar stands still.",
        train=_steps(steps=240, batch=1, reader="mmap"),
        verdicts=STORAGE,
        fired=F01,
        quiet=frozenset({"F04"}),
        slow=_slow_data(0.02),
        slow_places=DATA,
        cache="page",
        files=1,
        file_bytes=64 * MIB,
    ),
    Scenario(
        name="slow-mmap-2-workers",
        why="The same faults, in the workers.",
        train=_steps(steps=240, batch=2, workers=2, reader="mmap"),
        verdicts=STORAGE,
        fired=F01,
        quiet=frozenset({"F04"}),
        slow=_slow_data(0.05),
        slow_places=DATA,
        cache="page",
        files=1,
        file_bytes=128 * MIB,
    ),
    Scenario(
        name="spikes",
        why="Fast storage that answers nothing for 1.6 s every 4 s: prefetching hides 0.2 s of it.",
        train=_steps(steps=240, compute_ms=40, batch=1, workers=2),
        verdicts=STORAGE,
        fired=frozenset({"F02"}),
        quiet=frozenset({"F04"}),
        slow=SlowFsSettings(spike_period_s=4.0, spike_duration_s=0.3, spike_latency_s=1.6),
        slow_places=DATA,
    ),
    Scenario(
        name="cpu-prep-0-workers",
        why="20 ms of Python arithmetic before every step; the item is made from nothing.",
        train=_steps(batch=1, reader="cpu", item_ms=20),
        verdicts=frozenset({"cpu-prep"}),
        quiet=frozenset({"F02", "F04"}),
    ),
    Scenario(
        name="cpu-prep-2-workers",
        why="Two workers, 80 ms of arithmetic a batch each, for steps of 25 ms.",
        train=_steps(compute_ms=20, batch=4, workers=2, reader="cpu", item_ms=20),
        verdicts=frozenset({"cpu-prep"}),
        quiet=frozenset({"F02", "F04"}),
    ),
    Scenario(
        name="checkpoint-slow",
        why="8 MiB saved synchronously at 16 MiB/s every 40 steps; data fast, steps long.",
        train=_steps(
            compute_ms=60, batch=2, workers=1, checkpoint_every=40, checkpoint_mib=8,
        ),
        verdicts=frozenset({"checkpoint"}),
        fired=frozenset({"F04"}),
        quiet=F01,
        slow=SlowFsSettings(bandwidth_bytes_per_s=16 * MIB),
        slow_places=frozenset({"checkpoint_dir"}),
    ),
    Scenario(
        name="checkpoint-fast",
        why="The same to a local disk, half as much and half as often: under 1 % of the time.",
        train=_steps(
            compute_ms=50, batch=2, workers=1, checkpoint_every=100, checkpoint_mib=4,
        ),
        verdicts=frozenset({"healthy"}),
        quiet=RULES,
    ),
    Scenario(
        name="gc-pauses",
        why="Decoy: the garbage collector stops the training thread every 12 steps.",
        train=_steps(compute_ms=40, batch=2, workers=1, gc_every=12, gc_objects=50_000),
        verdicts=NOT_ILL,
        quiet=RULES - {"F19"},  # the collections themselves are told, from 3 % on
    ),
    Scenario(
        name="sleeping-loader",
        why="The loader sleeps in neither storage nor CPU: no cause may be named.",
        train=_steps(batch=2, workers=1, reader="sleep", item_ms=25),
        verdicts=frozenset({"not-proven"}),
        quiet=frozenset({"F02", "F04"}),
    ),
    Scenario(
        name="two-ranks-one-slow",
        why="Ranks in lockstep; one reads slow storage, both lose the same time.",
        train=_steps(steps=200, batch=1, slow_rank=1),
        verdicts=STORAGE,
        fired=F01,
        quiet=frozenset({"F04"}),
        slow=_slow_data(0.025),
        slow_places=frozenset({"slow_data"}),
        ranks=2,
    ),
    Scenario(
        name="validation-slow",
        why="Decoy: a validation loop reads slow storage now and then, training never waits.",
        train=_steps(
            compute_ms=50, batch=2, workers=1, validate_every=60, validation_batches=6,
        ),
        verdicts=NOT_ILL,
        quiet=frozenset({"F02", "F04"}),
        slow=_slow_data(0.02),
        slow_places=frozenset({"validation_data"}),
    ),
    Scenario(
        name="hook-absent-slow-storage",
        why="As slow-read-2-workers, seen by stacks alone.",
        train=_steps(steps=2000, batch=4, workers=2),
        verdicts=STORAGE,
        fired=F01,
        quiet=frozenset({"F04"}),
        slow=_slow_data(0.025),
        slow_places=DATA,
        tolerance=0.05,
        hook=False,
    ),
    Scenario(
        name="hook-absent-cpu-decode",
        why="As cpu-prep-2-workers, seen by stacks alone.",
        train=_steps(steps=1500, compute_ms=20, batch=4, workers=2, reader="cpu", item_ms=20),
        verdicts=frozenset({"cpu-prep", "not-storage"}),
        quiet=frozenset({"F02", "F04"}),
        tolerance=0.05,
        hook=False,
        is_long=True,
    ),
    Scenario(
        name="hook-absent-fast",
        why="As healthy, seen by stacks alone: few windows, but no process ever waits for storage.",
        train=_steps(steps=2000, compute_ms=50, batch=4, workers=2),
        verdicts=NOT_ILL,
        quiet=RULES,
        tolerance=0.05,
        hook=False,
        is_long=True,
    ),
    Scenario(
        name="hook-absent-0-workers",
        why="As slow-read-0-workers by stacks alone: the rank's samples mix reads and training.",
        train=_steps(steps=1900, batch=1),
        verdicts=STORAGE,
        fired=F01,
        quiet=frozenset({"F04"}),
        slow=_slow_data(0.02),
        slow_places=DATA,
        tolerance=0.05,
        hook=False,
        is_long=True,
    ),
    Scenario(
        name="hook-absent-sleeping-loader",
        why="As sleeping-loader, seen by stacks alone.",
        train=_steps(steps=1600, batch=2, workers=1, reader="sleep", item_ms=25),
        verdicts=frozenset({"not-proven"}),
        quiet=frozenset({"F02", "F04"}),
        tolerance=0.05,
        hook=False,
        is_long=True,
    ),
    Scenario(
        name="hook-absent-two-ranks-one-slow",
        why="As two-ranks-one-slow, seen by stacks alone: the other rank sits in the all-reduce.",
        train=_steps(steps=2600, batch=1, slow_rank=1),
        verdicts=STORAGE,
        fired=F01,
        quiet=frozenset({"F04"}),
        slow=_slow_data(0.025),
        slow_places=frozenset({"slow_data"}),
        ranks=2,
        tolerance=0.05,
        hook=False,
        is_long=True,
    ),
)  # fmt: skip
