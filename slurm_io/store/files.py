"""Small files of a store: replaced as a whole, read with suspicion. Standard library only."""

from __future__ import annotations

import json
import math
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from slurm_io.errors import StoreError

MAX_JSON_BYTES = 16 * 1024 * 1024


def why(exc: OSError) -> str:
    """The kernel's words for an error, without Python's decoration."""
    return exc.strerror or type(exc).__name__


def write_json_atomic(path: Path, obj: object, fsync: bool = False, mode: int = 0o600) -> None:
    """Replace `path` by `obj` as JSON, so that a reader sees the old or the new file, never a part.

    Raises StoreError when the file system refuses, or when `obj` is not JSON (NaN included).
    """
    try:
        text = json.dumps(obj, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as exc:
        raise StoreError(f"cannot write {path}: not JSON: {exc}") from exc
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        _write_new(temporary, text.encode() + b"\n", fsync, mode)
        temporary.replace(path)
        if fsync:
            fsync_folder(path.parent)
    except OSError as exc:
        with suppress(OSError):
            temporary.unlink()
        raise StoreError(f"cannot write {path}: {why(exc)}") from exc


def _write_new(path: Path, data: bytes, fsync: bool, mode: int) -> None:
    with suppress(FileNotFoundError):
        path.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, mode)
    try:
        write_all(fd, data)
        if fsync:
            os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """os.write until everything is with the kernel; OSError as it comes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def fsync_folder(path: Path) -> None:
    """Make renames in a folder survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def open_regular(path: Path, max_bytes: int) -> tuple[int, int]:
    """Open a file that may have been put there by anybody: (descriptor, size).

    Refuses links, pipes, devices, folders and anything over `max_bytes` with a StoreError that
    names the file; never blocks on a pipe.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        fd = os.open(path, flags)
    except OSError as exc:
        raise StoreError(f"cannot read {path}: {why(exc)}") from exc
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise StoreError(f"{path} is not a regular file: remove it from the store")
        if facts.st_size > max_bytes:
            raise StoreError(f"{path} has {facts.st_size} bytes, more than the {max_bytes} allowed")
    except BaseException:
        os.close(fd)
        raise
    return fd, facts.st_size


def read_regular(path: Path, max_bytes: int) -> bytes:
    """All bytes of a regular file of at most `max_bytes`; StoreError otherwise."""
    fd, _ = open_regular(path, max_bytes)
    with open(fd, "rb") as file:
        try:
            data = file.read(max_bytes + 1)
        except OSError as exc:
            raise StoreError(f"cannot read {path}: {why(exc)}") from exc
    if len(data) > max_bytes:
        raise StoreError(f"{path} grew past the {max_bytes} bytes allowed")
    return data


def read_json(path: Path, max_bytes: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """A JSON object from a file of the store; StoreError names the file when it is none."""
    data = read_regular(path, max_bytes)
    try:
        obj = json.loads(data, parse_constant=_refused, parse_float=_finite)
    except (ValueError, RecursionError) as exc:
        raise StoreError(f"{path} is not valid JSON: {exc}") from exc
    if not isinstance(obj, dict):
        raise StoreError(f"{path} holds no JSON object")
    return obj


def _refused(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refused(text)


def read_json_if_there(path: Path, max_bytes: int = MAX_JSON_BYTES) -> dict[str, Any] | None:
    """As :func:`read_json`; None when the file does not exist."""
    if not os.path.lexists(path):
        return None
    return read_json(path, max_bytes)
