"""One watch for a reservation, and its memory on disk: ``<state_dir>/reservations/<name>/``."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from slurm_io.errors import HostError
from slurm_io.host.root_folders import read_file, write_file
from slurm_io.reservation.history import reservation_folder
from slurm_io.reservation.watch.memory import MOST_BYTES, Memory, memory_of

MEMORY_NAME = "watch.json"
_LEASE = "watch.lock"


@contextlib.contextmanager
def only_watch(state_dir: str, reservation: str) -> Iterator[None]:
    """Held while the block runs, and by nobody after a kill. Raises HostError when another watch
    of this machine (or of one that shares `state_dir` and its locks) has it."""
    with reservation_folder(state_dir, reservation, create=True) as folder:
        assert folder is not None
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        lease = os.open(_LEASE, flags, 0o600, dir_fd=folder)
        try:
            fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.truncate(lease, 0)
            os.pwrite(lease, f"{os.getpid()}\n".encode(), 0)
            yield
        except BlockingIOError:
            pid = os.pread(lease, 32, 0).decode("ascii", "replace").strip()
            raise HostError(
                f"reservation {reservation} has a watch already (process {pid}): stop that one "
                "first, or let it do its work"
            ) from None
        finally:
            os.close(lease)


def load_memory(state_dir: str, reservation: str) -> Memory:
    """What an earlier watch left; an empty one when there is none. Raises HostError for a damaged
    one, which :func:`save_memory` then replaces."""
    with reservation_folder(state_dir, reservation) as folder:
        raw = None if folder is None else read_file(folder, MEMORY_NAME, MOST_BYTES)
    return Memory() if raw is None else memory_of(raw)


def save_memory(state_dir: str, reservation: str, memory: Memory) -> None:
    """By rename, so that a kill leaves the old one or the new one. Raises HostError."""
    with reservation_folder(state_dir, reservation, create=True) as folder:
        assert folder is not None
        write_file(folder, MEMORY_NAME, memory.to_json(), 0o600)
