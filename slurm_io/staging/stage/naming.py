"""Proven files get their names: hashed while they have none, then renamed, all below one folder."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Sequence

from slurm_io.staging.beneath import Folder
from slurm_io.staging.manifest.model import FileEntry, Header
from slurm_io.staging.manifest.paths import encode_path
from slurm_io.staging.stage.folders import entered
from slurm_io.staging.stage.proving import Proven, prove
from slurm_io.staging.stage.syncing import flush
from slurm_io.staging.verify.l1 import stamp_of
from slurm_io.staging.verify.model import BadFile
from slurm_io.staging.verify.table import Stamp

MODE = 0o644
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
TARGET_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENXIO})
"""The target's own: no use going on."""


class Checked(Proven):
    """Also `sized`: of the right size, without a digest in the manifest; `stamps` by path."""

    def __init__(self) -> None:
        super().__init__()
        self.sized: set[str] = set()
        self.stamps: dict[str, Stamp] = {}


def check(
    slot: Folder, header: Header, entries: Sequence[FileEntry], stop: threading.Event
) -> Checked:
    """Compare files of a slot with the manifest, as the medium has them.

    Raises OSError: the target's fault.
    """
    checked = Checked()
    present = _flushed(slot, entries, checked)
    proven = prove(slot, header, [e for e in present if e.digest is not None], stop)
    checked.right, checked.bytes_from_cache = proven.right, proven.bytes_from_cache
    checked.bad |= proven.bad
    checked.sized = {entry.path for entry in present if entry.digest is None}
    return checked


def give_name(slot: Folder, tree: Folder, path: str, checked: Stamp) -> Stamp:
    """Rename a file into the dataset; its stamp there. Raises OSError.

    ESTALE: it is no longer the file that was checked.
    """
    folder, _, name = encode_path(path).rpartition(b"/")
    there = entered(tree, folder)
    os.rename(name, name, src_dir_fd=slot.folder_fd(folder), dst_dir_fd=there)
    stamp: Stamp = stamp_of(os.lstat(name, dir_fd=there))
    if stamp[:3] != checked[:3]:
        raise OSError(errno.ESTALE, "it changed after it was checked")
    return stamp


def _flushed(slot: Folder, entries: Sequence[FileEntry], checked: Checked) -> list[FileEntry]:
    """Files of the right kind and size, on their way to the disk; others are entered as bad."""
    opened: list[tuple[FileEntry, int]] = []
    try:
        for entry in entries:
            found = _opened(slot, entry)
            if isinstance(found, BadFile):
                checked.bad[entry.path] = found
            else:
                opened.append((entry, found))
        flush(slot.fd, [fd for _, fd in opened])
        for entry, fd in opened:
            checked.stamps[entry.path] = stamp_of(os.fstat(fd))
    finally:
        for _, fd in opened:
            os.close(fd)
    return [entry for entry, _ in opened]


def _opened(slot: Folder, entry: FileEntry) -> int | BadFile:
    """A file with the owner and mode it shall have, open. Raises OSError."""
    folder, _, name = encode_path(entry.path).rpartition(b"/")
    try:
        fd = os.open(name, _OPEN, dir_fd=slot.folder_fd(folder))
    except (FileNotFoundError, NotADirectoryError):
        return BadFile(entry.path, "missing", 1, "the engine called it done, and it is not there")
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return BadFile(entry.path, "not a file", 1, "a link came instead of a file")
    facts = os.fstat(fd)
    wrong = _wrong(entry, facts)
    if wrong is not None:
        os.close(fd)
        return wrong
    if facts.st_uid != os.geteuid():
        os.fchown(fd, os.geteuid(), os.getegid())
    os.fchmod(fd, MODE)  # last: no setuid bit of the source's stays
    return fd


def _wrong(entry: FileEntry, facts: os.stat_result) -> BadFile | None:
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
        return BadFile(entry.path, "not a file", 1, "what came is no file of its own")
    size = entry.size_bytes
    if size is None or facts.st_size == size:
        return None
    detail = f"{facts.st_size} bytes came instead of {size}"
    return BadFile(entry.path, "truncated" if facts.st_size < size else "longer", 1, detail)
