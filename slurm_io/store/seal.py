"""Turns the streams of a node folder into Parquet; ``python -m slurm_io.store.seal SPOOL``.

Each part goes through: stream → hidden temporary Parquet file → fsync → rename to the part's number
→ stream removed. A kill at any point leaves either the stream or the whole Parquet file (both, for
a moment), and the next run goes on from there: no row is lost, none doubled. Damage found in a
stream is kept in the footer of its Parquet file and copied to ``meta.json``.

A stream whose writer still lives (it holds a lock) is left alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from slurm_io.errors import SlurmIoError, StoreError
from slurm_io.store.files import read_json_if_there, why, write_json_atomic
from slurm_io.store.parquet_part import footer_damage
from slurm_io.store.parquet_write import write_part
from slurm_io.store.parts import Part, list_names, list_parts, next_number
from slurm_io.store.schema import SCHEMA_VERSION, TABLES
from slurm_io.store.table_files import read_stream

_TEMPORARY_PREFIX = ".seal-"
_NICENESS = 19
_LOCK_POLL_S = 0.1
_OTHER_SEALER_S = 120.0  # a killed sampler's child may still be at work on a rotated stream


@dataclass
class SealResult:
    """What one run did. `rows` per table and `bytes` count the parts sealed in this run.

    `live` are streams left to their living writer; `failed` maps a stream that stays as it is to
    the reason.
    """

    sealed: list[str] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    stream_bytes: int = 0
    parquet_bytes: int = 0
    damage: list[dict[str, Any]] = field(default_factory=list)
    live: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


def seal_spool(spool: Path, wait_s: float = 0.0) -> SealResult:
    """Seal every stream in `spool` that has no living writer; safe to run again at any time.

    Another process that is sealing the same folder is waited for up to `wait_s` seconds.

    Raises StoreError when the folder cannot be used at all or is being sealed by another process.
    """
    result = SealResult()
    with alone_in(spool, wait_s):
        _number_streams(spool, result)
        _remove_leftovers(spool, writer_lives=bool(result.live))
        for part in list_parts(spool):
            if part.suffix == "arrows" and part.number is not None:
                _seal_or_say_why(spool, part, result)
        result.damage = _all_damage(spool)
        if not result.live:
            _note_damage(spool, result.damage)
    return result


@contextmanager
def alone_in(spool: Path, wait_s: float) -> Iterator[None]:
    """Hold the folder's lock; the kernel frees it however the process ends."""
    try:
        fd = os.open(spool, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as exc:
        raise StoreError(f"cannot seal {spool}: {why(exc)}") from exc
    try:
        deadline_s = time.monotonic() + wait_s
        while not (is_ours := _locked(fd)) and time.monotonic() < deadline_s:
            time.sleep(_LOCK_POLL_S)
        if not is_ours:
            raise StoreError(f"{spool} is being sealed by another process")
        yield
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    """Take the lock; False when somebody else has it. No locks on this file system: taken."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _remove_leftovers(spool: Path, writer_lives: bool) -> None:
    """Half-written files of killed processes; a living sampler's own are left to it."""
    for name in list_names(spool):
        is_ours = name.startswith(_TEMPORARY_PREFIX)
        is_json = name.startswith(".") and name.endswith(".tmp") and not writer_lives
        if is_ours or is_json:
            with suppress(OSError):
                (spool / name).unlink()


def _number_streams(spool: Path, result: SealResult) -> None:
    """``block.arrows`` becomes the table's next part, unless its writer lives."""
    parts = list_parts(spool)
    for part in parts:
        if part.suffix != "arrows" or part.number is not None:
            continue
        numbered = Part(part.table, next_number(parts, part.table), "arrows")
        path = spool / part.file_name
        try:
            if not _rename_unless_written(path, spool / numbered.file_name):
                result.live.append(part.file_name)
        except OSError as exc:
            result.failed[part.file_name] = f"cannot seal {path}: {why(exc)}"


def _rename_unless_written(path: Path, target: Path) -> bool:
    """Rename under the lock, so that a writer that just opened the file sees one or the other."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not _locked(fd):
            return False
        path.rename(target)
    finally:
        os.close(fd)
    return True


def _seal_or_say_why(spool: Path, part: Part, result: SealResult) -> None:
    try:
        if part.table not in TABLES:
            raise StoreError(f"{spool / part.file_name}: there is no table {part.table}")
        _seal(spool, part, result)
    except StoreError as exc:
        result.failed[part.file_name] = str(exc)
    except OSError as exc:
        result.failed[part.file_name] = f"cannot seal {spool / part.file_name}: {why(exc)}"


def _seal(spool: Path, part: Part, result: SealResult) -> None:
    stream = spool / part.file_name
    target = spool / Part(part.table, part.number, "parquet").file_name
    if not os.path.lexists(target):  # else: killed after the rename, only the stream is left over
        table = TABLES[part.table]
        rows, damage = read_stream(stream, table)
        if rows.num_rows or damage is not None:
            noted = [damage.to_dict()] if damage is not None else []
            temporary = spool / f"{_TEMPORARY_PREFIX}{target.name}"
            write_part(temporary, target, rows, table, noted)
            result.sealed.append(target.name)
            result.rows[table.name] = result.rows.get(table.name, 0) + rows.num_rows
            result.parquet_bytes += target.stat().st_size
    result.stream_bytes += stream.stat().st_size
    stream.unlink()


def _all_damage(spool: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for part in list_parts(spool):
        if part.suffix == "parquet":
            with suppress(StoreError):  # an unreadable part is the reader's error to report
                found += footer_damage(spool / part.file_name)
    return found


def _note_damage(spool: Path, damage: list[dict[str, Any]]) -> None:
    """Only when there is some: a killed sampler may have left no ``meta.json`` to add to."""
    if not damage:
        return
    path = spool / "meta.json"
    try:
        meta = read_json_if_there(path)
    except StoreError:
        meta = None  # torn or no file of ours: the damage is worth more than it
    meta = meta if meta is not None else {"schema": SCHEMA_VERSION}
    if meta.get("damage") != damage:
        write_json_atomic(path, {**meta, "damage": damage}, fsync=True)


def main(arguments: list[str]) -> int:
    """Seal the folder named by the only argument; prints the result as one line of JSON."""
    if len(arguments) != 1:
        print("usage: python -m slurm_io.store.seal SPOOL", file=sys.stderr)
        return 2
    os.nice(_NICENESS)
    try:
        result = seal_spool(Path(arguments[0]), wait_s=_OTHER_SEALER_S)
    except SlurmIoError as exc:
        print(exc, file=sys.stderr)
        return exc.exit_code
    print(json.dumps(result.to_dict()))
    return 3 if result.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
