"""What a save or load was aimed at: its path, and its size where one cheap call tells it."""

from __future__ import annotations

import io
import os

from . import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def is_memory(target: object) -> bool:
    """Is it a buffer in memory, that is, no storage at all?"""
    return isinstance(target, (io.BytesIO, io.StringIO))


def path_of(target: object) -> str | None:
    """Absolute path of a path or of an open file; None when there is none to know."""
    try:
        name = getattr(target, "name", None) if hasattr(target, "fileno") else target
        if isinstance(name, (str, bytes, os.PathLike)):
            return os.path.abspath(os.fsdecode(name))
    except Exception:  # a user's file-like object may do anything when asked
        return None
    return None


def bytes_written(target: object) -> int:
    """Bytes of a finished save, or -1. An open file, not yet flushed, is asked for its position."""
    try:
        if isinstance(target, io.BufferedIOBase):
            return target.tell()
        return bytes_of_file(target)
    except Exception:
        return record.UNKNOWN


def bytes_of_file(target: object) -> int:
    """Size of the file, or -1."""
    try:
        if hasattr(target, "fileno"):
            return os.fstat(_fileno(target)).st_size
        if isinstance(target, (str, bytes, os.PathLike)) and not os.path.isdir(target):
            return os.stat(target).st_size
    except Exception:
        return record.UNKNOWN
    return record.UNKNOWN


def _fileno(target: Any) -> int:
    return int(target.fileno())
