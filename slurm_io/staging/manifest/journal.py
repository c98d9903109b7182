"""The journal of a build: what was hashed so far, so that a killed build goes on where it was.

Beside the manifest, ``NAME.journal``: a line of settings, then a line a batch of files, each headed
by the CRC-32 of its rest. A torn or damaged line is as if it had never been written. What it says
of a file counts only while that is still the very same state of the very same file (device, inode,
size, mtime_ns, ctime_ns; no user can set ctime). ``flock`` keeps two builds of one manifest apart.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import zlib
from collections.abc import Sequence
from typing import Any

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.hashing import FileDigest, Identity
from slurm_io.staging.manifest.paths import printable

SUFFIX = ".journal"
_FORM = 2  # of the lines: what another slurm_io left is not read
_MAX_LINE_BYTES = 64 << 20


class Journal:
    """An open journal. `settings` are those of the build that began it."""

    def __init__(self, path: str, settings: dict[str, Any], resume: bool = True) -> None:
        """Begin or go on. The key ``created_at`` of `settings` is taken from the older build.

        Raises ManifestError when another build holds it or it cannot be written.
        """
        self._path = path
        self.digests: dict[str, FileDigest] = {}
        self.settings = {"journal": _FORM, **settings}
        try:
            self._fd = _open(path)
        except OSError as error:
            raise ManifestError(
                f"{printable(path)}: cannot be written ({error.strerror})"
            ) from error
        try:
            self._begin(resume)
        except BaseException:
            os.close(self._fd)
            raise

    def add(self, line: bytes) -> None:
        """Record a line of :func:`line_of`; it is safe against a kill once this returns."""
        try:
            written = os.write(self._fd, line)
            while written < len(line):
                written += os.write(self._fd, line[written:])
        except OSError as error:
            raise ManifestError(
                f"{printable(self._path)}: cannot be written ({error.strerror})"
            ) from error

    def close(self, remove: bool) -> None:
        """Let go of the journal; `remove` when the manifest is in place."""
        if remove:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
        os.close(self._fd)

    def _begin(self, resume: bool) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ManifestError(
                f"{printable(self._path)}: another build of this manifest is running; wait for it"
            ) from None
        end = self._read() if resume else 0
        os.ftruncate(self._fd, end)
        os.lseek(self._fd, 0, os.SEEK_END)
        if not end:
            self.digests = {}
            os.write(self._fd, _line(self.settings))

    def _read(self) -> int:
        """Take over what is there; where to go on writing (0: nothing is of use)."""
        with os.fdopen(os.dup(self._fd), "rb") as file:
            first = file.readline(_MAX_LINE_BYTES)
            settings = _row(first)
            if not first.endswith(b"\n") or not _same(settings, self.settings):
                return 0
            self.settings = settings
            end = file.tell()
            while line := file.readline(_MAX_LINE_BYTES):
                if not line.endswith(b"\n"):
                    continue  # torn: what follows would be written onto it
                end = file.tell()
                rows = _row(line)
                for path, (identity, digest, ends, chunks) in rows if type(rows) is list else ():
                    found = FileDigest(Identity(*identity), digest, ends, tuple(chunks))
                    self.digests[path] = found
        return end


def _open(path: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags, 0o644)
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
        os.close(fd)
        raise ManifestError(
            f"{printable(path)}: is not a journal of your own; remove it, or give another --output"
        )
    return fd


def _same(one: Any, other: dict[str, Any]) -> bool:
    return isinstance(one, dict) and {**one, "created_at": ""} == {**other, "created_at": ""}


def line_of(results: Sequence[tuple[str, FileDigest]]) -> bytes:
    """The line of a batch of files: ``[[path, [identity, digest, ends, chunks]], ...]``."""
    return _line(results)


def _line(row: Any) -> bytes:
    text = json.dumps(row, separators=(",", ":")).encode()
    return b"%08x %b\n" % (zlib.crc32(text), text)


def _row(line: bytes) -> Any:
    """What a line says; None when it is torn or damaged."""
    sum_, _, text = line.rstrip(b"\n").partition(b" ")
    if sum_ != b"%08x" % zlib.crc32(text):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None
