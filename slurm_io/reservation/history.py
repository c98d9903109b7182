"""What happened to a reservation's nodes: swaps, drills, failures and repairs, one JSON line each.

``<state_dir>/reservations/<name>/history.jsonl``, written by root, appended durably under a lock.
It feeds the time-to-swap estimate, failures per week and the list of lemons. A line torn by a crash
costs that line; at `TURN_BYTES` the older half is dropped. `phases` holds seconds by the names of
`PHASES`; a phase that did not happen or was not measured is absent, never 0.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from slurm_io.errors import HostError
from slurm_io.host.root_folders import (
    child_folder,
    is_plain_name,
    read_file,
    trusted_folder,
    write_file,
)
from slurm_io.reservation.history_record import DONE, PHASES, HistoryRecord, line_of, parse_line
from slurm_io.staging.datasets import expand_state_dir

__all__ = [
    "DONE",
    "PHASES",
    "History",
    "HistoryRecord",
    "parse_line",
    "reservation_folder",
]
FILE_NAME = "history.jsonl"
TURN_BYTES = 1 << 20
_LOCK = "history.lock"
_MOST_BYTES = 8 << 20


class History:
    """The history of one reservation; makes its folder at the first :meth:`append`.

    `state_dir` is that of the machine which manages spares.
    """

    def __init__(self, state_dir: str, reservation: str) -> None:
        if not is_plain_name(reservation):
            raise HostError(f"{reservation!a:.80} cannot be a reservation's name")
        self._state_dir = state_dir
        self._reservation = reservation

    def append(self, record: HistoryRecord) -> None:
        """On disk when it returns. Raises HostError."""
        line = line_of(record)
        with self._folder(create=True) as folder:
            assert folder is not None
            try:
                with _locked(folder):
                    _append(folder, line)
            except OSError as error:
                raise HostError(f"{self._label}: {error.strerror or error}") from error

    def read(self) -> tuple[HistoryRecord, ...]:
        """All records, oldest first; () when there are none. Lines that are no records are left
        out. Raises HostError for a file that is not root's or not of a bearable size."""
        with self._folder() as folder:
            raw = None if folder is None else read_file(folder, FILE_NAME, _MOST_BYTES)
        records = (parse_line(line) for line in (raw or b"").split(b"\n"))
        found = [record for record in records if record is not None]
        return tuple(sorted(found, key=lambda record: record.at_s))

    @property
    def _label(self) -> str:
        state_dir = expand_state_dir(self._state_dir)
        return f"{state_dir}/reservations/{self._reservation}/{FILE_NAME}"

    @contextlib.contextmanager
    def _folder(self, create: bool = False) -> Iterator[int | None]:
        with reservation_folder(self._state_dir, self._reservation, create) as folder:
            yield folder


@contextlib.contextmanager
def reservation_folder(state_dir: str, name: str, create: bool = False) -> Iterator[int | None]:
    """Descriptor of ``<state_dir>/reservations/<name>``; None where it is missing and not made.

    `state_dir` as configured: %N and the like stand for this machine. Raises HostError for a folder
    that others can change.
    """
    state_dir = expand_state_dir(state_dir)
    if not create and not Path(state_dir, "reservations", name).is_dir():
        yield None
        return
    mode = 0o755 if create else None
    with trusted_folder(state_dir, create=create) as state:
        above = child_folder(state, "reservations", state_dir, mode)
        try:
            folder = child_folder(above, name, f"{state_dir}/reservations", mode)
        finally:
            os.close(above)
    try:
        yield folder
    finally:
        os.close(folder)


@contextlib.contextmanager
def _locked(folder: int) -> Iterator[None]:
    """A file of its own, because turning over replaces the history's."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(_LOCK, flags, 0o600, dir_fd=folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _append(folder: int, line: bytes) -> None:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(FILE_NAME, flags, 0o644, dir_fd=folder)
    try:
        size_bytes = os.fstat(descriptor).st_size
        if size_bytes + len(line) > TURN_BYTES:
            _turn(folder, line)
            return
        is_torn = size_bytes > 0 and os.pread(descriptor, 1, size_bytes - 1) != b"\n"
        os.write(descriptor, (b"\n" if is_torn else b"") + line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _turn(folder: int, line: bytes) -> None:
    """Keep the newer half."""
    raw = read_file(folder, FILE_NAME, _MOST_BYTES) or b""
    kept = raw[-(TURN_BYTES // 2) :].partition(b"\n")[2]
    write_file(folder, FILE_NAME, kept.rstrip(b"\n") + b"\n" + line)
    os.fsync(folder)
