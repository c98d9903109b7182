"""What a build of a manifest is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from slurm_io.errors import ManifestError, UsageError
from slurm_io.staging.manifest.algorithms import DEFAULT
from slurm_io.staging.manifest.files import Form
from slurm_io.staging.manifest.model import Header
from slurm_io.staging.manifest.paths import printable
from slurm_io.staging.manifest.walk import FollowLinks, Problem

CHUNK_BYTES = 256 << 20


@dataclass(frozen=True)
class BuildOptions:
    """How to build. `template` holds the header's own facts (dataset, tokens, sources, notes, …).

    `chunk_bytes`: digests of pieces too, doubled until no file has more than 8192 of them.
    `workers` None: one a core. `created_at` empty: now.
    """

    template: Header
    algorithm: str = DEFAULT
    ends: bool = True
    chunk_bytes: int | None = None
    exclude: tuple[str, ...] = ()
    default_excludes: bool = True
    follow_links: FollowLinks = "refuse"
    keep_going: bool = False
    resume: bool = True
    drop_cache: bool = False
    workers: int | None = None
    form: Form | None = None


@dataclass(frozen=True)
class Progress:
    """How far a build is. Totals are None while listing."""

    phase: Literal["listing", "hashing", "checking"]
    files: int
    files_total: int | None = None
    bytes: int = 0
    bytes_total: int | None = None


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class BuildResult:
    """What a build made. `resumed_files` were taken from an earlier build's journal."""

    header: Header
    form: Form
    problems: tuple[Problem, ...] = ()
    left_out: dict[str, int] = field(default_factory=dict)
    resumed_files: int = 0
    seconds: float = 0.0


class BuildProblems(ManifestError):
    """Some files cannot be in the manifest; none was written."""

    def __init__(self, root: str, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        first = problems[0]
        super().__init__(
            f"{printable(root)}: no manifest, {len(problems)} path(s) cannot be in it, first "
            f"{printable(first.path)}: {first.reason}; mend them, or --keep-going without them"
        )


def new_template(dataset: str, **facts: Any) -> Header:
    """A header for :class:`BuildOptions`: what is known before any file was read.

    Raises UsageError for a name that cannot name a dataset.
    """
    if not dataset or len(dataset) > 256 or not dataset.isprintable():
        raise UsageError(f"dataset name {dataset!a:.80}: give 1 to 256 printable characters")
    return Header(dataset=dataset, content_id="", file_count=0, total_bytes=None, **facts)
