"""Where an engine's files land: what is there already, and whose fault an error is."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from typing import Literal

from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.stage.model import Failure


def at(room: str, path: str) -> str:
    """Where a file of the dataset lies in an engine's room."""
    return f"{room}/{path}"


def size_at(room: str, path: str) -> int | None:
    """Bytes of a regular file; None when there is none."""
    try:
        found = os.lstat(at(room, path))
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def begun(room: str, entry: FileEntry) -> int:
    """Bytes of a file that an earlier call brought and that can be gone on with.

    A file of full length was asked for again because it is wrong: it goes, and so does anything
    that is no file. Raises OSError.
    """
    size = size_at(room, entry.path)
    if size is not None and entry.size_bytes is not None and size < entry.size_bytes:
        return size
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(at(room, entry.path))
    return 0


def discard(room: str, path: str) -> None:
    """Take away a file that is no beginning of the right one."""
    with contextlib.suppress(OSError):
        os.unlink(at(room, path))


def target_failure(entry: FileEntry, error: OSError) -> Failure:
    """This node could not write a file."""
    return Failure(entry.path, f"writing here: {error.strerror or error}", "target")


def all_failed(
    files: Iterable[FileEntry], text: str, whose: Literal["source", "link", "target"]
) -> tuple[Failure, ...]:
    """One answer for every file."""
    return tuple(Failure(entry.path, text, whose) for entry in files)
