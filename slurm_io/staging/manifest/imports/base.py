"""What an importer is, what it is told and gives, and where importers register.

An importer is one module of this folder: a function that reads a foreign description, and one
that recognises it by content, registered under the module's own name::

    @IMPORTERS.register("sums")
    class Sums:
        title = "lines of digest and path (sha256sum, xxhsum, b3sum, BSD --tag)"
        def recognise(self, source: Source) -> bool: ...
        def read(self, source: Source, options: ImportOptions) -> Imported: ...

`recognise` reads the file's head (64 KiB), its JSON, or the folder's names: all kept by the
source, so that asking every importer costs one read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from slurm_io.errors import ManifestError, UsageError
from slurm_io.registry import Registry
from slurm_io.staging.manifest.foreign_source import Source
from slurm_io.staging.manifest.model import FileEntry, Tokens

ProblemKind = Literal["missing", "size", "corrupt", "not-a-file", "unreadable", "contradiction"]


@dataclass(frozen=True)
class Problem:
    """One thing that disagrees: source with itself, or source with the local copy.

    `text` says it in one line. `expected` and `found` are bytes or ``ALGORITHM:HEX``, None when
    there is no such value. `tensor` names the one a safetensors shard lacks.
    """

    kind: ProblemKind
    path: str
    text: str
    expected: int | str | None = None
    found: int | str | None = None
    tensor: str | None = None


@dataclass(frozen=True)
class ImportOptions:
    """What the user said. `root`: folder of a local copy. `prefix`: cut off every path.

    `algorithm`: what digests are whose length leaves it open. `vocabulary`: number of token ids.
    """

    root: str | None = None
    prefix: str = ""
    algorithm: str | None = None
    vocabulary: int | None = None


@dataclass(frozen=True)
class Stated:
    """Totals the source states for the files whose path starts with `below`."""

    total_bytes: int
    file_count: int
    below: str
    where: str


@dataclass(frozen=True)
class Imported:
    """What a source says. `problems` are contradictions within it; `notes` go into the header."""

    entries: tuple[FileEntry, ...]
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    tokens: Tokens | None = None
    problems: tuple[Problem, ...] = ()
    stated: Stated | None = None


class Importer(Protocol):
    """One format."""

    title: str

    def recognise(self, source: Source) -> bool:
        """Is this source of my format? Cheap; may raise ManifestError for broken JSON."""
        ...

    def read(self, source: Source, options: ImportOptions) -> Imported:
        """Read it. Raises ManifestError naming file, line and what to do."""
        ...


IMPORTERS: Registry[type[Importer]] = Registry("importer", "slurm_io.staging.manifest.imports")


def importer_for(source: Source, wanted: str | None) -> tuple[str, Importer]:
    """The importer of that name, or the one that recognises the source.

    Raises UsageError when the name is unknown or several recognise it, ManifestError when none.
    """
    known = IMPORTERS.discover()
    if wanted is not None:
        name = wanted.replace("-", "_").lower()
        if name not in known:
            raise UsageError(f"no format called {wanted!a:.40}; there are: {', '.join(known)}")
        return name, known[name]()
    found = [name for name, make in known.items() if make().recognise(source)]
    if len(found) > 1:
        raise UsageError(f"{source.shown} could be {' or '.join(found)}: say which with --format")
    if not found:
        raise ManifestError(
            f"{source.shown}: none of the formats {', '.join(known)}; say which with --format"
        )
    return found[0], known[found[0]]()
