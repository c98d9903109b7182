"""Making written data durable, and getting it to the medium before it is read back."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence

from slurm_io.staging.verify.reading import is_direct, set_direct

ONE_BY_ONE = 16
"""So many files are flushed one by one; of more, the whole file system at once is faster."""


def sync_file_system(descriptor: int) -> None:
    """Everything written so far to the file system of an open folder is on disk. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(descriptor) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def flush(folder_fd: int, descriptors: Sequence[int]) -> None:
    """What the next read of these files past the cache gives is what the medium has.

    Where files can be read past the cache (O_DIRECT) such a read writes out first what is still in
    memory: that is only begun here, for all at once. Elsewhere all is written and the cache given
    back. Raises OSError.
    """
    cached = [fd for fd in descriptors if not _begun(fd)]
    if len(cached) > ONE_BY_ONE:
        sync_file_system(folder_fd)
    else:
        for fd in cached:
            os.fsync(fd)
    for fd in cached:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def _begun(descriptor: int) -> bool:
    set_direct(descriptor, True)
    if not is_direct(descriptor):
        return False
    set_direct(descriptor, False)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    return True
