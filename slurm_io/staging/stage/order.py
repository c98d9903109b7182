"""What one stage is told. Pure data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from slurm_io.staging.datasets import Tier
from slurm_io.staging.stage.model import Phase, SourceSpec
from slurm_io.staging.verify.identity import Roots


@dataclass(frozen=True)
class Patience:
    """How long a source may fail before it is given up.

    After `link_tries` calls in a row that brought nothing, each awaited twice as long as the one
    before (from `first_wait_s`, at most `longest_wait_s`), or when no byte came for `hung_s`; then
    it has `grace_s` to end by itself.
    """

    link_tries: int = 6
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0
    hung_s: float = 300.0
    grace_s: float = 10.0


@dataclass(frozen=True)
class StageOrder:
    """One dataset for one folder of this node.

    `manifest` is the manifest's file; `content_id`: the version wanted, None = the manifest's.
    `engine` None: the best for each kind of source. `repair`: only these files are looked at and
    copied again, None = all. `accept_sizes`: files without a digest may count as ready.
    `bandwidth_bytes_s`: of all sources together, 0 = no limit.
    """

    name: str
    tier: Tier
    path: str
    manifest: str
    state_dir: str
    sources: tuple[SourceSpec, ...] = ()
    content_id: str | None = None
    engine: str | None = None
    streams: int = 8
    bandwidth_bytes_s: int = 0
    free_share: float = 0.05
    debris_age_s: float = 6 * 3600.0
    repair: frozenset[str] | None = None
    delete_extra: bool = False
    accept_sizes: bool = False
    patience: Patience = field(default_factory=Patience)
    roots: Roots = field(default_factory=Roots)


class Progress(NamedTuple):
    """Where a stage is. Bytes and files of this phase, done and of all."""

    phase: Phase
    done_bytes: int
    total_bytes: int
    done_files: int
    total_files: int


OnProgress = Callable[[Progress], None]
