"""A foreign description of a dataset on disk: one file or folder, read within bounds.

The name the user gives is followed wherever it leads; what is found below it never is: no
symbolic link, no named pipe, nothing outside. Lengths have limits, so that a file of a gigabyte of
brackets or a compressed bomb costs an error and not the machine's memory.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from functools import cached_property
from typing import IO, Any, Self

from slurm_io.errors import ManifestError
from slurm_io.staging.beneath import Folder
from slurm_io.staging.manifest.foreign_json import parse_json
from slurm_io.staging.manifest.paths import checked_path, encode_path, printable

HEAD_BYTES = 64 << 10
MAX_DOCUMENT_BYTES = 256 << 20
MAX_LINE_BYTES = 64 << 10
MAX_NAMES = 1_000_000
MAX_FOLDERS = 10_000
MAX_DEPTH = 8
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class Source:
    """What a user named as the description of a dataset, or as the folder of a copy of it.

    `folder` is the folder itself, or the one the file lies in; `name` the file's own name, "" for
    a folder. Use as a context manager: it keeps the folder open. Raises ManifestError.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.is_folder = _is_folder(self.path)
        self.folder, self.name = (self.path, "") if self.is_folder else os.path.split(self.path)
        try:
            self._below = Folder.at(self.folder)
        except OSError as error:
            raise ManifestError(f"{shown(self.folder)}: {_reason(error)}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder."""
        self._below.close()

    @property
    def shown(self) -> str:
        """The name for messages: one line, ASCII."""
        return shown(self.name or os.path.basename(self.path) or self.path)

    def open(self) -> int:
        """Descriptor of the file itself (the caller closes it); links of the user's own count."""
        try:
            fd = os.open(self.path, _FLAGS)
        except OSError as error:
            raise ManifestError(f"{self.shown}: {_reason(error)}") from error
        return _regular(fd, self.shown)

    def open_below(self, relative: str) -> int | None:
        """Descriptor of a regular file below the folder, None when there is none.

        Follows no link. Raises ManifestError for what is no regular file or may not be read.
        """
        try:
            fd = self._below.open_file(checked_path(relative))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ManifestError(f"{shown(relative)}: {_reason(error)}") from error
        return _regular(fd, shown(relative))

    def read_below(self, relative: str, limit: int = MAX_DOCUMENT_BYTES) -> bytes | None:
        """All bytes of a file below the folder, None when there is none."""
        fd = self.open_below(relative)
        if fd is None:
            return None
        try:
            return read_bounded(fd, limit, shown(relative))
        finally:
            os.close(fd)

    def size_below(self, relative: str) -> int | None:
        """Bytes of a regular file below the folder, None when there is none."""
        try:
            found = self._below.stat(checked_path(relative))
        except OSError:
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def holds(self, relative: str) -> bool:
        """Is there a regular file of that name below the folder?"""
        return self.size_below(relative) is not None

    def names_below(self, relative: str = "") -> list[str]:
        """Names in the folder (or one below it), sorted; empty where there is no such folder."""
        try:
            names = os.listdir(self._below.folder_fd(encode_path(relative)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise ManifestError(f"{shown(relative or self.folder)}: {_reason(error)}") from error
        if len(names) > MAX_NAMES:
            raise ManifestError(f"{shown(relative or self.folder)}: over {MAX_NAMES} names in it")
        return sorted(names)

    def folders_below(self) -> Iterator[str]:
        """Relative paths of folders ("" first), parents first, at most 8 deep and 10,000 in all."""
        waiting, seen = [""], 0
        while waiting:
            folder = waiting.pop(0)
            yield folder
            seen += 1
            if seen > MAX_FOLDERS:
                raise ManifestError(f"{self.shown}: over {MAX_FOLDERS} folders; import each alone")
            if folder.count("/") + bool(folder) < MAX_DEPTH:
                waiting.extend(self._subfolders(folder))

    def files_below(self, suffix: str) -> list[str]:
        """Relative paths of everything whose name ends so, folder by folder."""
        return [
            f"{folder}/{name}" if folder else name
            for folder in self.folders_below()
            for name in self.names_below(folder)
            if name.endswith(suffix)
        ]

    @cached_property
    def names(self) -> frozenset[str]:
        """Names in the folder a user gave; empty for a file."""
        return frozenset(self.names_below()) if self.is_folder else frozenset()

    @cached_property
    def head(self) -> bytes:
        """First 64 KiB of the file, b"" for a folder."""
        if self.is_folder:
            return b""
        fd = self.open()
        try:
            return os.pread(fd, HEAD_BYTES, 0)
        finally:
            os.close(fd)

    @cached_property
    def document(self) -> Any:
        """The file as JSON, None when it does not look like JSON. Raises ManifestError."""
        if not looks_like_json(self.head):
            return None
        return parse_json(self.content, self.shown)

    @cached_property
    def content(self) -> bytes:
        """The whole file, at most 256 MiB."""
        fd = self.open()
        try:
            return read_bounded(fd, MAX_DOCUMENT_BYTES, self.shown)
        finally:
            os.close(fd)

    def has_keys(self, *keys: str) -> bool:
        """Is the file a JSON object with all of these keys?"""
        document = self.document
        return isinstance(document, dict) and all(key in document for key in keys)

    def _subfolders(self, folder: str) -> list[str]:
        try:
            with os.scandir(self._below.folder_fd(encode_path(folder))) as rows:
                found = sorted(row.name for row in rows if row.is_dir(follow_symlinks=False))
        except OSError as error:
            raise ManifestError(f"{shown(folder or self.folder)}: {_reason(error)}") from error
        return [f"{folder}/{name}" if folder else name for name in found]


def shown(path: str) -> str:
    """A path for messages: as it is when plain, else quoted, in any case one line of ASCII."""
    plain = path.isascii() and path.isprintable() and len(path) <= 200
    return path if plain else printable(path)


def looks_like_json(head: bytes) -> bool:
    """Does a file start like a JSON object or list, byte order marks aside?"""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return head[2:].replace(b"\0", b"").lstrip()[:1] in (b"{", b"[")
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def read_bounded(fd: int, limit: int, where: str) -> bytes:
    """All of an open file from its start. Raises ManifestError past `limit` bytes."""
    parts, total = [], 0
    try:
        while part := os.pread(fd, min(1 << 20, limit + 1 - total), total):
            parts.append(part)
            total += len(part)
            if total > limit:
                raise ManifestError(f"{where}: over {limit >> 20} MiB, too large to read at once")
    except OSError as error:
        raise ManifestError(f"{where}: {_reason(error)}") from error
    return b"".join(parts)


def lines_of(file: IO[bytes], where: str) -> Iterator[tuple[int, bytes]]:
    """(number from 1, line with its end) of a file. Raises ManifestError for an endless line."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise ManifestError(f"{where} line {number}: over {MAX_LINE_BYTES >> 10} KiB long")
        yield number, line


def _regular(fd: int, where: str) -> int:
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise ManifestError(f"{where}: is not a regular file")


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (OSError, ValueError) as error:
        raise ManifestError(f"{shown(path)}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "is a symbolic link or lies behind one, which an import does not follow"
    return f"cannot be read ({getattr(error, 'strerror', None) or error})"
