"""What a scenario of the grid is: settings on one side, what the report must say on the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from slurm_io.analysis.rules.base import RULES as REGISTERED
from tests.labs.slowfs_settings import CacheMode, SlowFsSettings

if TYPE_CHECKING:
    from tests.analysis.stand_in import StandInStore

KIB = 1024
MIB = 1024 * 1024
Place = Literal["data", "slow_data", "validation_data", "checkpoint_dir", "load"]
NOT_ILL = frozenset({"healthy", "not-storage"})
STORAGE = frozenset({"storage"})
CPU_PREP = frozenset({"cpu-prep"})
CHECKPOINT = frozenset({"checkpoint"})
RULES = frozenset(rule.code for rule in REGISTERED)
BLAMES_STORAGE = RULES & {
    "F02",
    "F03",
    "F04",
    "F06",
    "F07",
    "F08",
    "F10",
    "F16",
    "F17",
    "F18",
    "F25",
}
"""Rules that lay a loss on storage whatever their evidence; F01 names its cause."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What is right for one scenario.

    `verdicts` are the ones that are right; rules in `fired` must fire, those in `quiet` must not.
    `named`: what some finding must name as the place, by the key of its `where` (a file by its bare
    name). `told`: what else stands in the report, by its dotted name. The report's value may be off
    by `tolerance` (of training GPU-seconds) at most.
    `unproven_when_busy`: why a machine whose CPUs are short may leave this one unproven; else it
    may not. `silent_when_busy`: rules of `fired` that need the machine to keep time, and may be
    quiet where it does not. `share_is_known`: False where nothing may be said of the share (too
    short a job). `decoy`: storage is not to blame.
    """

    name: str
    why: str
    verdicts: frozenset[str]
    fired: frozenset[str] = frozenset()
    quiet: frozenset[str] = frozenset()
    named: Mapping[str, object] = field(default_factory=dict)
    told: Mapping[str, object] = field(default_factory=dict)
    tolerance: float = 0.02
    unproven_when_busy: str = ""
    silent_when_busy: frozenset[str] = frozenset()
    share_is_known: bool = True
    decoy: bool = False
    is_long: bool = False


@dataclass(frozen=True)
class Limits:
    """A Slurm-like control group (v1) around the training command; None = no limit."""

    cpus: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Disk:
    """The dataset on a loop device of its own, whose image lies on a slow file system.

    `slow`: how that one behaves once the dataset has been written.
    """

    slow: SlowFsSettings
    size_bytes: int = 320 * MIB


@dataclass(frozen=True)
class Change:
    """New settings of the slow file system, `after_s` after the first read of it."""

    after_s: float
    settings: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Scenario(Judged):
    """One run of the training lab under `slurm-io run`.

    `train` are train_job's options; `slow_places` say which of its folders lie on the slow mount,
    `changes` how that mount changes meanwhile. Without `hook` it is switched off and stacks stand
    for it; those runs are longer, for windows come rarely. `stacks`: beside the hook. `one_cpu`:
    all on a single CPU. `object_s`: seconds a GET takes at the object store. `checkpoint_bytes`:
    the checkpoints' own small file system. `nodes`: how many the ranks are spread over, each with
    a sampler of its own; the ranks of the last one read `slow_data`.
    """

    train: Mapping[str, object]
    slow: SlowFsSettings = field(default_factory=SlowFsSettings)
    slow_places: frozenset[Place] = frozenset()
    changes: tuple[Change, ...] = ()
    cache: CacheMode = "direct"
    ranks: int = 1
    nodes: int = 1
    files: int = 64
    file_bytes: int = 64 * KIB
    hook: bool = True
    stacks: bool = False
    one_cpu: bool = False
    limits: Limits | None = None
    disk: Disk | None = None
    object_s: float | None = None
    checkpoint_bytes: int | None = None

    @property
    def needs_fuse(self) -> bool:
        """Whether it mounts slowfs."""
        return bool(self.slow_places) or self.disk is not None

    @property
    def needs_root(self) -> bool:
        """Whether it makes control groups, loop devices or mounts a tmpfs."""
        return any((self.limits, self.disk, self.checkpoint_bytes))


@dataclass(frozen=True, kw_only=True)
class Recorded(Judged):
    """A store written from made-up series, for what cannot be had here.

    `make` gives the job and its true share of storage.
    """

    make: Callable[[], tuple[StandInStore, float]]


def steps(steps: int = 220, compute_ms: float = 30, **options: object) -> dict[str, object]:
    """train_job's options, with the usual length of a run."""
    return {"steps": steps, "compute_ms": compute_ms, **options}


def slow_reads(read_latency_s: float, **others: float) -> SlowFsSettings:
    """A constant delay of each read."""
    return SlowFsSettings(read_latency_s=read_latency_s, **others)  # type: ignore[arg-type]


LATE_HANDOVER = "batches are handed over late where CPUs are short"
DATA: frozenset[Place] = frozenset({"data"})
F01 = frozenset({"F01"})
