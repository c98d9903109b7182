"""Copies a sealed node folder into a job store, as the user the store belongs to.

Two halves, because root reads the spool and the user writes the store: root opens the spool's
files (:func:`open_source`), then :func:`slurm_io.store.run_as.run_as` runs :func:`deliver` as the
user with those descriptors and nothing else. In user mode both halves run in one process.

The store's folder is in the user's hands: links are never followed below it, nothing outside it is
touched, and anything in the way is a one-line StoreError.
"""

from __future__ import annotations

import os
import re
import resource
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_io.errors import StoreError
from slurm_io.store.files import open_regular, why
from slurm_io.store.markers import check_node_name, mark_done
from slurm_io.store.parts import list_names, parse_part

_FACTS = ("meta.json", "self.json", "checks.json")
MAX_FILE_BYTES = 4 * 1024 * 1024 * 1024
_COPY_BYTES = 8 * 1024 * 1024
_SPARE_FDS = 64


@dataclass(frozen=True)
class SourceFile:
    """One open file of a spool."""

    name: str
    fd: int
    size_bytes: int


@dataclass(frozen=True)
class Source:
    """The files of a node folder that are delivered, held open; close with :meth:`close`."""

    path: Path
    files: tuple[SourceFile, ...]

    def fds(self) -> tuple[int, ...]:
        """The descriptors, for :func:`slurm_io.store.run_as.run_as`."""
        return tuple(file.fd for file in self.files)

    def close(self) -> None:
        """Give the descriptors back."""
        for file in self.files:
            os.close(file.fd)


def open_source(spool: Path) -> Source:
    """Open everything of `spool` that belongs into a store: tables, sealed or not, and facts."""
    names = [name for name in list_names(spool) if name in _FACTS or parse_part(name) is not None]
    _allow_fds(len(names))
    files: list[SourceFile] = []
    try:
        for name in names:
            files.append(SourceFile(name, *open_regular(spool / name, MAX_FILE_BYTES)))
    except BaseException:
        Source(spool, tuple(files)).close()
        raise
    return Source(spool, tuple(files))


def _allow_fds(count: int) -> None:
    """A month of hourly parts is more files than the usual soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + _SPARE_FDS
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise StoreError(f"a spool of {count} files needs RLIMIT_NOFILE {needed}, it is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def deliver(
    spool: Path | Source,
    store: Path,
    node: str,
    clean: bool = True,
    missing: tuple[str, ...] = (),
    folder_mode: int = 0o700,
    file_mode: int = 0o600,
) -> dict[str, Any]:
    """Copy a node folder to ``store/node=<node>`` and mark it done; ``{node, files, bytes}``.

    The copy becomes visible whole or not at all, and replaces an older one. `clean` and `missing`
    go into the marker. StoreError names the path and the kernel's reason.
    """
    check_node_name(node)
    source = open_source(spool) if isinstance(spool, Path) else spool
    try:
        with _open_store(store, folder_mode) as store_fd:
            copied = _copy_folder(source, store_fd, f"node={node}", folder_mode, file_mode)
    except OSError as exc:
        raise StoreError(f"cannot deliver to {store}: {why(exc)}") from exc
    finally:
        if isinstance(spool, Path):
            source.close()
    info = {"ts_ns": time.time_ns(), "clean": clean, "missing": list(missing)}
    mark_done(store, node, info, file_mode)
    return {"node": node, "files": len(source.files), "bytes": copied}


@contextmanager
def _open_store(store: Path, folder_mode: int) -> Iterator[int]:
    """A descriptor of the store's folder, made when missing; never through a link."""
    try:
        with suppress(FileExistsError):
            store.mkdir(folder_mode)
        fd = os.open(store, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError as exc:
        raise StoreError(f"{store} is no folder (a file or a link is in the way)") from exc
    except OSError as exc:
        raise StoreError(f"cannot open {store}: {why(exc)}") from exc
    try:
        yield fd
    finally:
        os.close(fd)


def _copy_folder(
    source: Source, store_fd: int, final: str, folder_mode: int, file_mode: int
) -> int:
    """Copy beside, make durable, swap in; bytes copied."""
    partial = f"{final}.partial-{secrets.token_hex(4)}"
    _remove_leftovers(store_fd, final)
    os.mkdir(partial, folder_mode, dir_fd=store_fd)
    try:
        fd = os.open(partial, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=store_fd)
        try:
            copied = sum(_copy_file(file, fd, file_mode) for file in source.files)
            os.fsync(fd)
        finally:
            os.close(fd)
        _swap_in(store_fd, partial, final)
    except BaseException:
        _remove(store_fd, partial)
        raise
    os.fsync(store_fd)
    return copied


def _copy_file(file: SourceFile, folder_fd: int, mode: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    target = os.open(file.name, flags, mode, dir_fd=folder_fd)
    try:
        offset = 0
        while offset < file.size_bytes:
            data = os.pread(file.fd, min(_COPY_BYTES, file.size_bytes - offset), offset)
            if not data:
                break  # truncated under our hands: the reader will say what is damaged
            offset += _write_all(target, data)
        os.fsync(target)
    finally:
        os.close(target)
    return offset


def _write_all(fd: int, data: bytes) -> int:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    return len(data)


def _swap_in(store_fd: int, partial: str, final: str) -> None:
    """Rename over an older copy. A folder cannot replace a full one, so the old one goes aside."""
    old = f"{final}.old-{secrets.token_hex(4)}"
    with suppress(FileNotFoundError):
        os.rename(final, old, src_dir_fd=store_fd, dst_dir_fd=store_fd)
    os.rename(partial, final, src_dir_fd=store_fd, dst_dir_fd=store_fd)
    _remove(store_fd, old)


def _remove_leftovers(store_fd: int, final: str) -> None:
    """What an interrupted delivery of this node left."""
    marker = re.compile(rf"\.DONE\.{re.escape(final.removeprefix('node='))}\.[0-9]+\.tmp")
    for name in os.listdir(store_fd):
        if name.startswith((f"{final}.partial-", f"{final}.old-")) or marker.fullmatch(name):
            _remove(store_fd, name)


def _remove(store_fd: int, name: str) -> None:
    """Remove a folder, file or link in the store as far as it goes; links are not followed."""
    try:
        is_folder = stat.S_ISDIR(os.lstat(name, dir_fd=store_fd).st_mode)
    except FileNotFoundError:
        return
    if is_folder:
        shutil.rmtree(name, ignore_errors=True, dir_fd=store_fd)
    else:
        with suppress(OSError):
            os.unlink(name, dir_fd=store_fd)
