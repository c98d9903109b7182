"""Reads of small files, bounded and with errors that name the path.

A missing file is an ordinary answer for most sources (an older kernel, a controller that is not
mounted), so :func:`read_optional_text` returns None for it; :func:`read_text` is for files that
must be there.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from slurm_io.errors import HostError

if TYPE_CHECKING:  # 3 ms, of which a prolog needs nothing
    from pathlib import Path

DEFAULT_LIMIT_BYTES = 4 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024


def read_bytes(path: str | Path, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> bytes:
    """The whole file, read to its end because /proc gives long files page by page.

    Raises:
        HostError: the file cannot be opened or read, or holds more than `limit_bytes`.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _read_to_end(descriptor, path, limit_bytes)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise HostError(f"cannot read {path}: {error.strerror or error}") from error


def read_text(path: str | Path, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> str:
    """The file as text; bytes that are no UTF-8 survive as surrogates. Errors as `read_bytes`."""
    return read_bytes(path, limit_bytes).decode("utf-8", "surrogateescape")


def read_optional_text(path: str | Path, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> str | None:
    """The file as text, or None when it cannot be read for whatever reason."""
    try:
        return read_text(path, limit_bytes)
    except HostError:
        return None


def read_optional_line(path: str | Path) -> str | None:
    """A one-line attribute as /sys holds them, stripped; None when unreadable or empty."""
    text = read_optional_text(path, 65536)
    return (text.strip() or None) if text is not None else None


def read_optional_number(path: str | Path) -> int | None:
    """An attribute that is one decimal number; None when unreadable or anything else."""
    line = read_optional_line(path)
    return int(line) if line is not None and line.isascii() and line.isdigit() else None


def _read_to_end(descriptor: int, path: str | Path, limit_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size_bytes = 0
    while chunk := os.read(descriptor, _CHUNK_BYTES):
        size_bytes += len(chunk)
        if size_bytes > limit_bytes:
            raise HostError(f"{path} holds more than {limit_bytes} bytes: not read")
        chunks.append(chunk)
    return b"".join(chunks)
