"""What is to be copied, from where, and what came of it. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from slurm_io.staging.manifest.model import FileEntry

SourceKind = Literal["path", "peer", "s3"]
Phase = Literal["planning", "copying", "verifying", "ready", "degraded", "failed"]
"""As an end: copying = stopped, the same call goes on; verifying = copied, but some files have no
digest; degraded = every file verified, with files beside them that no version has."""


@dataclass(frozen=True)
class SourceSpec:
    """One place that holds the dataset.

    `where` by kind: path: an absolute folder that this node can read (a mount, or another disk);
    peer: ``rsync://USER@HOST:PORT/MODULE`` of an ephemeral daemon, its secret in `secret`;
    s3: ``s3://BUCKET/PREFIX`` (endpoint and credentials from the environment, as boto3 reads
    them). `label` is what people read: a node's name, a bucket. `readers_max`: files taken from
    it at once, 0 = the site's streams.
    """

    kind: SourceKind
    where: str
    label: str
    secret: str | None = field(default=None, repr=False)
    readers_max: int = 0


@dataclass(frozen=True)
class Batch:
    """Some files of the manifest for one call of an engine, a few files or a few GB."""

    number: int
    files: tuple[FileEntry, ...]

    @property
    def total_bytes(self) -> int:
        """Bytes of all its files."""
        return sum(entry.size_bytes or 0 for entry in self.files)


@dataclass(frozen=True)
class Failure:
    """One file that an engine could not bring.

    `whose`: "source" (this source has no such bytes: ask another), "link" (may go better next
    time), "target" (this node: no space, I/O error, no use going on).
    """

    path: str
    text: str
    whose: Literal["source", "link", "target"]


@dataclass(frozen=True)
class Fetched:
    """What one call brought: paths that are complete as far as the engine can tell (the driver
    verifies), and failures. Every file of the batch is in one of them."""

    done: tuple[str, ...]
    failures: tuple[Failure, ...] = ()
    bytes_moved: int = 0


@dataclass(frozen=True)
class StagePlan:
    """What a stage would do: ``--dry-run`` prints it.

    `to_copy` files of `copy_bytes`; `kept_files` are already right (at `kept_level`).
    `free_bytes` is what the target's file system has for us now, `debris_bytes` what the janitor
    would give back, `short_bytes` > 0 when it does not fit. `eta_s` None when no rate is known.
    `to_hash` files have the right size and were never proven here: a stage hashes them first and
    copies those that are bad. `extra`: first files that this version does not have. `problem`: why
    nothing can be copied at all.
    """

    name: str
    tier: str
    path: str
    content_id: str
    sources: tuple[SourceSpec, ...]
    to_copy: int
    copy_bytes: int
    kept_files: int
    kept_bytes: int
    kept_level: int
    free_bytes: int | None
    debris_bytes: int
    short_bytes: int
    rate_bytes_s: float | None = None
    eta_s: float | None = None
    notes: tuple[str, ...] = ()
    to_hash: int = 0
    hash_bytes: int = 0
    extra: tuple[str, ...] = ()
    extra_count: int = 0
    short_inodes: int = 0
    problem: str | None = None

    @property
    def exit_code(self) -> int:
        """Of ``--dry-run``: 0 nothing to do, 1 there is something to do, 3 it cannot be done."""
        if self.problem or self.short_bytes or self.short_inodes:
            return 3
        return 1 if self.to_copy or self.to_hash else 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it; secrets of sources stay out."""
        from dataclasses import asdict

        data = asdict(self)
        for source in data["sources"]:
            source.pop("secret")
        return data


@dataclass(frozen=True)
class StageAnswer:
    """What a stage came to. `state` ready is said only after every file was verified at level 4
    from the medium, everything was made durable, and the record stands."""

    state: Phase
    text: str
    content_id: str
    copied_files: int = 0
    copied_bytes: int = 0
    repaired_files: int = 0
    failed: tuple[Failure, ...] = ()
    by_source: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    copy_s: float = 0.0
    verify_s: float = 0.0
    not_done: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 ready, 1 whole but with files beside it that do not belong there, 3 not."""
        return {"ready": 0, "degraded": 1}.get(self.state, 3)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        from dataclasses import asdict

        return asdict(self)
