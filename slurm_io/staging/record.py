"""What a node knows of one dataset: ``<state_dir>/datasets/<name>@<tier>/record.json``.

Beside it lies a table of all files with the stamps they had when this node verified them. The
record is bound to machine, file system and folder, the table to inode and ctime of each file: a
copied or stale record proves nothing. Root writes, everybody reads; the writer replaces both by
rename, durably, and holds a lock.

Standard library only: the prolog reads it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Literal, get_args

from slurm_io.errors import HostError
from slurm_io.host.root_folders import child_folder, is_plain_name, read_file, trusted_folder
from slurm_io.records import dataclass, fields, replace
from slurm_io.staging.verify.identity import FileSystem, Machine
from slurm_io.staging.verify.table import Table, TableForm

State = Literal["absent", "copying", "copied", "verifying", "ready", "degraded", "failed"]
SCHEMA = 1
FILE_NAME = "record.json"
_LOCK = "lock"
_TABLE_PREFIX, _TABLE_SUFFIX = "files-", ".bin"
WriteTable = Callable[[BinaryIO, str], TableForm]
"""(open file, its name) -> form; writes the table."""


@dataclass(frozen=True)
class Record:
    """One node's word on one dataset. Times are ns since the epoch, 0 = not yet.

    `level`: what every file was verified to, -1 when one was not. `method` and `source`: how and
    from where it was copied. `cursor`: file number where the next rotating sample starts. `links`
    "inside": links to files inside the folder stand for files, as the manifest has it.
    """

    name: str
    tier: str
    path: str
    content_id: str
    state: State
    machine: Machine
    filesystem: FileSystem
    root_inode: int
    level: int = -1
    method: str = ""
    source: str = ""
    started_ns: int = 0
    finished_ns: int = 0
    verified_ns: int = 0
    files: int = 0
    total_bytes: int = 0
    bytes_per_s: float | None = None
    cursor: int = 0
    table: TableForm | None = None
    links: Literal["inside"] | None = None
    schema: int = SCHEMA

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        data = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in ("machine", "filesystem", "table"):
            data[name] = data[name].to_dict() if data[name] is not None else None
        return data


def folder_name(name: str, tier: str) -> str:
    """Name of a record's folder; a dataset that is a raw path goes by a hash of it."""
    if "/" in name:
        import hashlib  # 3 ms, for raw paths only

        name = "=" + hashlib.blake2b(name.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    if not is_plain_name(name) or tier not in ("local", "shared"):
        raise HostError(f"{name!a:.80}@{tier!a:.20} cannot name a dataset's record")
    return f"{name}@{tier}"


def load(state_dir: str, name: str, tier: str) -> Record | None:
    """The record, None when there is none. Raises HostError when it is damaged."""
    if not os.path.isdir(state_dir):
        return None
    with trusted_folder(state_dir) as state, _opened(state, name, tier) as folder:
        raw = read_file(folder, FILE_NAME) if folder is not None else None
    return None if raw is None else parse(raw)


def open_table(state_dir: str, record: Record) -> Table | None:
    """The record's table; None when it has none. The caller keeps it as long as it likes.

    Raises HostError when it is damaged or gone (then a writer has just replaced it).
    """
    if record.table is None:
        return None
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with trusted_folder(state_dir) as state, _opened(state, record.name, record.tier) as folder:
        if folder is None:
            raise HostError(f"{state_dir}: the record of {record.name!a} is gone")
        try:
            descriptor = os.open(record.table.file, flags, dir_fd=folder)
        except OSError as error:
            raise HostError(f"table {record.table.file}: {error.strerror}") from error
    try:
        return Table(descriptor, record.table)
    except HostError:
        os.close(descriptor)
        raise


def parse(raw: bytes) -> Record:
    """A record's text. Raises HostError, and nothing else whatever the bytes."""
    try:
        data = json.loads(raw)
        known = {each.name: data[each.name] for each in fields(Record) if each.name in data}
        known["machine"] = Machine.from_dict(data["machine"])
        known["filesystem"] = FileSystem.from_dict(data["filesystem"])
        if data.get("table") is not None:
            known["table"] = TableForm(**data["table"])
        record = Record(**known)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise HostError(f"{FILE_NAME} is damaged: {type(error).__name__}") from error
    return _checked(record)


@contextlib.contextmanager
def opened(state_dir: str, name: str, tier: str) -> Iterator[int | None]:
    """The record's folder, for reading only; None when there is none. Raises HostError."""
    if not os.path.isdir(state_dir):
        yield None
        return
    with trusted_folder(state_dir) as state, _opened(state, name, tier) as folder:
        yield folder


@contextlib.contextmanager
def locked(state_dir: str, name: str, tier: str) -> Iterator[int]:
    """The record's folder, made where missing, for its only writer. Raises HostError."""
    with trusted_folder(state_dir, create=True) as state:
        datasets = child_folder(state, "datasets", state_dir, 0o755)
        try:
            folder = child_folder(datasets, folder_name(name, tier), state_dir, 0o755)
        finally:
            os.close(datasets)
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            lock = os.open(_LOCK, flags, 0o600, dir_fd=folder)
        except OSError as error:
            raise HostError(
                f"the record of {name!a} cannot be kept in {state_dir}: {error.strerror}; records "
                "are root's: verify with --record as root"
            ) from error
        try:
            _take(lock, name, tier)
            yield folder
        finally:
            os.close(lock)
    finally:
        os.close(folder)


def save(folder: int, record: Record, write: WriteTable | None = None) -> Record:
    """Replace record and table in a folder from :func:`locked`; without `write` no table is kept.

    Durable when it returns. Raises HostError; then the old record still stands.
    """
    try:
        form = None
        if write is not None:
            name = f"{_TABLE_PREFIX}{os.urandom(8).hex()}{_TABLE_SUFFIX}"
            with _new_file(folder, name) as file:
                form = write(file, name)
        record = replace(record, table=form)
        temporary = f".{FILE_NAME}.{os.urandom(6).hex()}"
        with _new_file(folder, temporary) as file:
            file.write(json.dumps(record.to_dict(), indent=1).encode() + b"\n")
        os.rename(temporary, FILE_NAME, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
        _sweep(folder, form.file if form is not None else "")
    except OSError as error:
        raise HostError(f"the record of {record.name!a} cannot be written: {error}") from error
    return record


def _take(lock: int, name: str, tier: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise HostError(
            f"somebody else is verifying or copying {name!a}@{tier} on this node: wait for that"
        ) from error


@contextlib.contextmanager
def _new_file(folder: int, name: str) -> Iterator[BinaryIO]:
    """A new file, on disk when the block ends; gone when it fails."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o644, dir_fd=folder), "wb") as file:
        try:
            os.fchmod(file.fileno(), 0o644)
            yield file
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(name, dir_fd=folder)
            raise


def _sweep(folder: int, keep: str) -> None:
    """Remove tables and temporary files of earlier writers, killed ones included."""
    for name in os.listdir(folder):
        is_table = name.startswith(_TABLE_PREFIX) and name.endswith(_TABLE_SUFFIX)
        if (is_table and name != keep) or name.startswith(f".{FILE_NAME}."):
            os.unlink(name, dir_fd=folder)


@contextlib.contextmanager
def _opened(state: int, name: str, tier: str) -> Iterator[int | None]:
    """The record's folder for reading; None when there is none."""
    with contextlib.ExitStack() as stack:
        below: int | None = state
        for part in ("datasets", folder_name(name, tier)):
            assert below is not None
            if not _exists(below, part):
                below = None
                break
            below = child_folder(below, part, part)
            stack.callback(os.close, below)
        yield below


def _exists(folder: int, name: str) -> bool:
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def _checked(record: Record) -> Record:
    """Types and ranges that readers rely on. Raises HostError."""
    numbers = ("root_inode", "level", "started_ns", "finished_ns", "verified_ns", "files", "cursor")
    fine = (
        record.schema == SCHEMA
        and record.state in get_args(State)
        and record.links in (None, "inside")
        and all(type(getattr(record, name)) is int for name in numbers)
        and all(isinstance(getattr(record, n), str) for n in ("name", "tier", "path", "content_id"))
        and (record.table is None or _is_form(record.table))
    )
    if not fine:
        raise HostError(f"{FILE_NAME} is damaged or of another version")
    return record


def _is_form(form: TableForm) -> bool:
    numbers = (form.size_bytes, form.files, form.digest_bytes)
    return (
        all(type(number) is int and number >= 0 for number in numbers)
        and isinstance(form.file, str)
        and is_plain_name(form.file)
        and all(
            name is None or isinstance(name, str)
            for name in (form.ends_algorithm, form.digest_algorithm)
        )
        and form.digest_bytes <= 64
    )
