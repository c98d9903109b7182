"""The files of one save, found below an open folder without following a link. Everything bounded.

Standard library and :mod:`slurm_io.staging.beneath` only. The folder is a user's: entries may be
links, FIFOs or gone a moment later, and may be many.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

from slurm_io.staging.beneath import Folder, kind_of_entry, open_regular, read_at
from slurm_io.staging.checkpoints.names import shown

MOST_ENTRIES = 20_000
MOST_LEVELS = 4
_BLOCK_BYTES = 512
_LOOK_AT_CLOCK = 256


@dataclass(frozen=True)
class Entry:
    """One regular file. `held_bytes`: what its blocks hold; less than its size where sparse."""

    raw: bytes
    size_bytes: int
    held_bytes: int
    written_ns: int


@dataclass
class Found:
    """One save: a folder with all below it, or a file, or some files of one folder.

    `files` by the name to show, relative to `base`; `others`: links, FIFOs, devices and what they
    are. `cut` says why the list is not whole, "" when it is.
    """

    folder: Folder
    base: bytes
    name: str
    is_folder: bool
    deadline_s: float
    files: dict[str, Entry] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    cut: str = ""

    @property
    def total_bytes(self) -> int:
        """Of all files."""
        return sum(one.size_bytes for one in self.files.values())

    @property
    def written_ns(self) -> int | None:
        """When the last of them was written, UTC."""
        return max((one.written_ns for one in self.files.values()), default=None)

    @contextmanager
    def open(self, name: str) -> Iterator[int]:
        """Descriptor of one of `files`. Raises OSError, NotAFile when it was swapped meanwhile."""
        raw = self.files[name].raw
        above, _, last = raw.rpartition(b"/")
        fd, _ = open_regular(self.folder.folder_fd(above), last)
        try:
            yield fd
        finally:
            os.close(fd)

    def read(self, name: str, most_bytes: int) -> bytes:
        """The beginning of one of `files`. Raises OSError."""
        with self.open(name) as fd:
            return read_at(fd, 0, most_bytes)

    def top(self) -> list[str]:
        """Names of the files directly in the folder."""
        return [name for name in self.files if "/" not in name]


def find_folder(folder: Folder, raw: bytes, deadline_s: float) -> Found:
    """All files below ``folder/raw``. Raises OSError when it cannot be opened."""
    found = Found(folder, raw, shown(raw.rpartition(b"/")[2]), True, deadline_s)
    waiting, seen = [(raw, 0)], 0
    while waiting:
        here, level = waiting.pop()
        for name in _names(folder, here, found):
            seen += 1
            if seen > MOST_ENTRIES:
                found.cut = f"more than {MOST_ENTRIES} entries"
            elif seen % _LOOK_AT_CLOCK == 0 and time.monotonic() > deadline_s:
                found.cut = "no time was left to list it"
            if found.cut:
                return found
            _add(found, here + b"/" + name, level, waiting)
    return found


def find_files(folder: Folder, raws: list[bytes], name: str, deadline_s: float) -> Found:
    """Some files directly in `folder`, as one save."""
    found = Found(folder, b"", name, False, deadline_s)
    for raw in raws:
        _add(found, raw, MOST_LEVELS, [])
    return found


def _names(folder: Folder, raw: bytes, found: Found) -> list[bytes]:
    """At most one more name than counts, so that a folder of millions costs no memory."""
    try:
        fd = folder.folder_fd(raw)
        with os.scandir(fd) as entries:
            named = [os.fsencode(one.name) for one in islice(entries, MOST_ENTRIES + 1)]
    except OSError as error:
        if raw == found.base:
            raise
        found.others[_relative(found, raw)] = f"a folder that cannot be read ({error.strerror})"
        return []
    return sorted(named)


def _add(found: Found, raw: bytes, level: int, waiting: list[tuple[bytes, int]]) -> None:
    name = _relative(found, raw)
    try:
        facts = found.folder.stat(raw)
    except FileNotFoundError:
        return  # gone since it was listed
    except OSError as error:
        found.others[name] = f"something that cannot be looked at ({error.strerror})"
        return
    if stat.S_ISREG(facts.st_mode):
        held = facts.st_blocks * _BLOCK_BYTES
        found.files[name] = Entry(raw, facts.st_size, held, facts.st_mtime_ns)
    elif stat.S_ISDIR(facts.st_mode) and level < MOST_LEVELS:
        waiting.append((raw, level + 1))
    else:
        found.others[name] = kind_of_entry(facts.st_mode)


def _relative(found: Found, raw: bytes) -> str:
    return shown(raw[len(found.base) + 1 :] if found.base else raw)
