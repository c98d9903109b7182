"""Plain copy from a folder that this node can read: a mount, or another disk.

Each file by ``copy_file_range`` (the kernel's own copy, or shared extents), else ``sendfile``, else
read and write. A partly copied file is gone on with from its end. The source's stamp is compared
before and after: a file that changed meanwhile is refused.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from slurm_io.staging.beneath import Folder, NotAFile, open_regular
from slurm_io.staging.links import LinksInside
from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.manifest.paths import encode_path
from slurm_io.staging.stage.engines.base import ENGINES, FetchOptions, Ranges
from slurm_io.staging.stage.folders import entered
from slurm_io.staging.stage.landing import all_failed
from slurm_io.staging.stage.model import Batch, Failure, Fetched, SourceKind, SourceSpec
from slurm_io.staging.stage.stream import Pump, WriteFailed
from slurm_io.staging.verify.l1 import stamp_of

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_LINK_ERRORS = frozenset(
    {errno.ETIMEDOUT, errno.ESTALE, errno.ENOTCONN, errno.EHOSTDOWN, errno.EHOSTUNREACH}
    | {errno.ECONNRESET, errno.ECONNREFUSED, errno.EAGAIN, errno.EINTR, errno.EMFILE}
)


@ENGINES.register("copy")
class Copy:
    """Reads below one folder; links in it are followed only to files inside."""

    kinds: tuple[SourceKind, ...] = ("path",)
    batch_files = 256

    def __init__(self, source: SourceSpec) -> None:
        self._where = source.where

    @classmethod
    def missing(cls) -> str | None:
        """Needs nothing."""
        return None

    def problem(self) -> str | None:
        """Whether the folder can be listed."""
        if (fault := self._fault()) is not None:
            return fault
        try:
            Folder.at(self._where).close()
        except OSError as error:
            return f"{self._where!a} cannot be opened: {error.strerror}"
        return None

    def fetch(self, batch: Batch, room: str, options: FetchOptions) -> Fetched:
        """One file after the other."""
        return self._each(batch.files, room, options, self._whole)

    def fetch_ranges(
        self, entry: FileEntry, ranges: Ranges, room: str, options: FetchOptions
    ) -> Fetched:
        """Pieces of one file."""

        def pieces(pump: Pump, source: int, target: int, entry: FileEntry) -> None:
            for start, length in ranges:
                pump.move(source, target, start, length)

        return self._each((entry,), room, options, pieces)

    def close(self) -> None:
        """Keeps nothing open."""

    def _fault(self) -> str | None:
        is_path = self._where.startswith("/") and "\0" not in self._where
        return None if is_path else f"{self._where!a:.200} is no absolute path"

    def _each(
        self,
        entries: tuple[FileEntry, ...],
        room: str,
        options: FetchOptions,
        how: Callable[[Pump, int, int, FileEntry], None],
    ) -> Fetched:
        if (fault := self._fault()) is not None:
            return Fetched((), all_failed(entries, fault, "source"))
        pump = Pump(options)
        try:
            with Folder.at(self._where) as source, Folder.at(room) as target:
                results = [self._one(pump, source, target, entry, how) for entry in entries]
        except OSError as error:
            results = [_by_source(entry, error) for entry in entries]
        failures = tuple(each for each in results if isinstance(each, Failure))
        done = tuple(each for each in results if isinstance(each, str))
        return Fetched(done, failures, pump.moved_bytes)

    def _one(
        self,
        pump: Pump,
        source: Folder,
        target: Folder,
        entry: FileEntry,
        how: Callable[[Pump, int, int, FileEntry], None],
    ) -> str | Failure:
        """The path when it is there, else what went wrong."""
        if pump.options.stop.is_set():
            return Failure(entry.path, "stopped", "link")
        try:
            return self._copied(pump, source, target, entry, how) or entry.path
        except NotAFile as error:
            return Failure(entry.path, f"is {error} at the source", "source")
        except WriteFailed as error:
            return Failure(entry.path, error.strerror or str(error), "target")
        except OSError as error:
            return _by_source(entry, error)

    def _copied(
        self,
        pump: Pump,
        source: Folder,
        target: Folder,
        entry: FileEntry,
        how: Callable[[Pump, int, int, FileEntry], None],
    ) -> Failure | None:
        raw = encode_path(entry.path)
        fd, before = self._opened(source, raw)
        try:
            if entry.size_bytes not in (None, before.st_size):
                detail = f"has {before.st_size} bytes at the source instead of {entry.size_bytes}"
                return Failure(entry.path, detail, "source")
            out = _target(target, raw)
            try:
                how(pump, fd, out, entry)
                if stamp_of(os.fstat(fd)) != stamp_of(before):
                    os.ftruncate(out, 0)  # a mixture of two versions is no beginning of either
                    return Failure(entry.path, "changed at the source while copied", "source")
            finally:
                os.close(out)
        finally:
            os.close(fd)
        if pump.stopped:
            return Failure(entry.path, "stopped", "link")
        return None

    def _whole(self, pump: Pump, source: int, target: int, entry: FileEntry) -> None:
        size, there = os.fstat(source).st_size, os.fstat(target).st_size
        if there > size:
            os.ftruncate(target, 0)
            there = 0
        pump.move(source, target, there, size - there)

    def _opened(self, source: Folder, raw: bytes) -> tuple[int, os.stat_result]:
        """Raises NotAFile, OSError."""
        folder, _, name = raw.rpartition(b"/")
        try:
            return open_regular(source.folder_fd(folder), name)
        except NotAFile:
            with LinksInside(source.fd, self._where) as links:
                return links.open(raw)


def _by_source(entry: FileEntry, error: OSError) -> Failure:
    """What the source, or the way to it, did not give."""
    text = error.strerror or str(error)
    return Failure(entry.path, text, "link" if error.errno in _LINK_ERRORS else "source")


def _target(target: Folder, raw: bytes) -> int:
    """The file in the room, open for writing. Raises WriteFailed."""
    folder, _, name = raw.rpartition(b"/")
    try:
        return os.open(name, _WRITE, 0o600, dir_fd=entered(target, folder, 0o700))
    except OSError as error:
        raise WriteFailed(error.errno, error.strerror) from error
