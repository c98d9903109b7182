"""Which rows a node folder has already: for whoever comes a second time with the same ones.

Rows are told by some of their columns. All streams and sealed parts are looked at, so it makes no
difference who wrote a row, a sampler, the one before it, or a reader that was itself cut short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slurm_io.errors import StoreError
from slurm_io.store.parquet_part import MAX_PARQUET_BYTES, opened
from slurm_io.store.parts import Part
from slurm_io.store.schema import Table
from slurm_io.store.table_files import effective_parts, narrowed, read_any_part

Key = tuple[object, ...]

_SLACK_NS = 3600 * 1_000_000_000  # two samplers of one folder may have read another UTC
_PARTS_LOOKED_BACK = 4


def leave_out_known(
    folder: Path, table: Table, key: Sequence[str], fresh: dict[Key, Any], offset_ns: int
) -> None:
    """Remove from `fresh` what `folder` has.

    `fresh` is keyed by the values of the columns `key`, ``mono_ns`` among them. `offset_ns` is
    UTC − CLOCK_MONOTONIC. StoreError when a part cannot be read: then nobody knows what is there.
    """
    if not fresh:
        return
    at = list(key).index("mono_ns")
    since_ns = min(_number(one[at]) for one in fresh)

    def forget(rows: pa.Table) -> None:
        recent = rows.filter(pc.greater_equal(rows["mono_ns"], since_ns))
        for one in zip(*(recent[name].to_pylist() for name in key), strict=True):
            fresh.pop(one, None)

    _of_each_part(folder, narrowed(table, key), since_ns + offset_ns - _SLACK_NS, forget)


def last_before(
    folder: Path, table: Table, names: Sequence[str], before_ns: Mapping[int, int]
) -> dict[int, dict[str, Any]]:
    """Of each pid of `before_ns` its youngest row that began before so many monotonic ns; only
    those that stand in one of the newest parts. StoreError as above."""
    wanted = narrowed(table, ("pid", *names))
    found: dict[int, dict[str, Any]] = {}
    for part in [*reversed(_parts_of(folder, table))][:_PARTS_LOOKED_BACK]:
        rows = read_any_part(folder, part, wanted)[0]
        ours = rows.filter(pc.is_in(rows["pid"], pa.array(list(before_ns), pa.int32())))
        for row in ours.to_pylist():
            is_later = row["mono_ns"] > found.get(row["pid"], {"mono_ns": -1})["mono_ns"]
            if row["mono_ns"] < before_ns[row["pid"]] and is_later:
                found[row["pid"]] = row
    return found


def _of_each_part(
    folder: Path, table: Table, since_ts_ns: int, see: Callable[[pa.Table], None]
) -> None:
    """`see` the rows of every part that is not older; again from the start when a sealing child of
    the dead sampler renamed a part meanwhile."""
    parts = _parts_of(folder, table)
    try:
        _see(folder, parts, table, since_ts_ns, see)
    except StoreError:
        if _parts_of(folder, table) == parts:
            raise
        _see(folder, _parts_of(folder, table), table, since_ts_ns, see)


def _see(
    folder: Path,
    parts: Iterable[Part],
    table: Table,
    since_ts_ns: int,
    see: Callable[[pa.Table], None],
) -> None:
    for part in parts:
        if part.suffix == "arrows" or not _is_older(folder / part.file_name, since_ts_ns):
            see(read_any_part(folder, part, table)[0])


def _parts_of(folder: Path, table: Table) -> list[Part]:
    return [part for part in effective_parts(folder) if part.table == table.name]


def _is_older(path: Path, since_ts_ns: int) -> bool:
    """By what the footer says of its youngest row; a footer that says nothing settles nothing."""
    with opened(path, MAX_PARQUET_BYTES) as raw:
        youngest = list(_youngest_of_groups(pq.read_metadata(raw)))
    return bool(youngest) and None not in youngest and max(youngest) < since_ts_ns


def _youngest_of_groups(metadata: pq.FileMetaData) -> Iterator[Any]:
    names = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    for group in range(metadata.num_row_groups):
        told = None
        with suppress(ValueError):
            told = metadata.row_group(group).column(names.index("ts_ns")).statistics
        yield told.max if told is not None and told.has_min_max else None


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
