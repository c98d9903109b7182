"""What should be in a dataset's folder: from a manifest, from this node's record, or from both.

Files are numbered in the order of their folders, the same for one version whatever the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from slurm_io.staging.manifest.model import FileEntry, Header
from slurm_io.staging.manifest.paths import encode_path
from slurm_io.staging.verify.grouping import group
from slurm_io.staging.verify.table import SEGMENT_FILES, Row, Segment, Table, TableDamaged

NO_STAMP = (0, 0, 0, 0)


class Expected(Protocol):
    """The files of one version. `stamped`: this node has verified them before."""

    @property
    def count(self) -> int: ...
    @property
    def stamped(self) -> bool: ...
    @property
    def chunk_bytes(self) -> int | None: ...
    @property
    def algorithm(self) -> str: ...
    def segments(self) -> Iterator[Segment]: ...
    def rows(self, indices: Iterable[int]) -> Iterator[tuple[int, Row]]: ...
    def index_files(self) -> list[int]: ...


class FromManifest:
    """Sizes and digests of a manifest; knows nothing of this node."""

    stamped = False

    def __init__(self, header: Header, files: Sequence[FileEntry]) -> None:
        """Raises ValueError for a path that leaves the folder."""
        paths = [encode_path(entry.path) for entry in files]
        folders = group(paths)
        self.files = [files[index] for indices, _ in folders.values() for index in indices]
        self._folders = [
            (folder, sorted(below), [paths[index].rpartition(b"/")[2] for index in indices])
            for folder, (indices, below) in folders.items()
        ]
        self.chunk_bytes = header.chunk_bytes
        self.algorithm = header.algorithm

    @property
    def count(self) -> int:
        """Files."""
        return len(self.files)

    def segments(self) -> Iterator[Segment]:
        """All segments, without stamps."""
        first = 0
        for folder, below, names in self._folders:
            starts = range(0, max(1, len(names)), SEGMENT_FILES)
            for start in starts:
                part = names[start : start + SEGMENT_FILES]
                sizes = [entry.size_bytes for entry in self.files[first : first + len(part)]]
                is_last = start == starts[-1]
                yield Segment(folder, first, part, sizes, None, below if is_last else (), is_last)
                first += len(part)

    def rows(self, indices: Iterable[int]) -> Iterator[tuple[int, Row]]:
        """The files of ascending `indices`."""
        for index in indices:
            yield index, Row(self.files[index], NO_STAMP, 0, 0)

    def index_files(self) -> list[int]:
        """Files that are index or metadata."""
        return [index for index, entry in enumerate(self.files) if entry.role != "data"]


class FromTable:
    """The record of this node: stamps, digests of the table's algorithms, no chunks."""

    stamped = True
    chunk_bytes = None

    def __init__(self, table: Table) -> None:
        self._table = table
        self.count = table.count
        self.algorithm = table.form.digest_algorithm or ""
        self.segments = table.segments
        self.rows = table.rows
        self.index_files = table.indices_of_roles


class FromBoth:
    """Stamps of the record, digests and chunks of the manifest, both of one version."""

    stamped = True

    def __init__(self, manifest: FromManifest, table: Table) -> None:
        """Raises TableDamaged when the two do not list the same number of files."""
        if table.count != manifest.count:
            raise TableDamaged(
                f"the record's table has {table.count} files, the manifest {manifest.count}"
            )
        self.manifest = manifest
        self._table = table
        self.count = manifest.count
        self.chunk_bytes = manifest.chunk_bytes
        self.algorithm = manifest.algorithm
        self.index_files = manifest.index_files

    def segments(self) -> Iterator[Segment]:
        """The table's segments. Raises TableDamaged where its names are not the manifest's."""
        for ours, theirs in zip(self._table.segments(), self.manifest.segments(), strict=False):
            if ours.folder != theirs.folder or list(ours.names) != list(theirs.names):
                raise TableDamaged("the record's table and the manifest name different files")
            yield ours

    def rows(self, indices: Iterable[int]) -> Iterator[tuple[int, Row]]:
        """The manifest's entry with the table's stamp."""
        for index, row in self._table.rows(indices):
            entry = self.manifest.files[index]
            yield index, Row(entry, row.stamp, row.level, row.verified_at_s)
