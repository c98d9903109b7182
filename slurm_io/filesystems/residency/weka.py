"""Weka: ``weka fs tier location`` says how much of a file is on SSD, how much in the object store.

Columns are separated by two blanks or more; a row need not stand below its headers::

    PATH   FILE TYPE  FILE SIZE  CAPACITY IN SSD (WRITE-CACHE)  CAPACITY IN OBJECT STORAGE
    image  regular    102.39 MB  0 B                  102.39 MB

A folder reports 0 everywhere, so files are asked. st_blocks means nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from slurm_io.filesystems.residency.base import SYSTEMS, Seen, State, System, Told, Verdict
from slurm_io.filesystems.residency.shell import batch_commands
from slurm_io.filesystems.residency.tools import ask_tool
from slurm_io.filesystems.sizes import Size, parse_size

_GAP = re.compile(r" {2,}")
_SOURCE = "weka fs tier location"
# Header of the table -> name of the column as --output and JSON spell it.
_COLUMNS = {
    "path": "path",
    "file type": "file_type",
    "file size": "file_size",
    "capacity in ssd (write-cache)": "ssd_write_cache_bytes",
    "capacity in ssd (read-cache)": "ssd_read_cache_bytes",
    "capacity in object storage": "object_storage_bytes",
    "capacity in remote storage": "remote_storage_bytes",
    "capacity in remote cluster": "remote_cluster_bytes",
}


class TierLocation(NamedTuple):
    """One row. `away` is what the object store and remote storage hold."""

    path: str
    file_type: str
    size: Size
    on_ssd: Size
    away: Size


def parse_tier_locations(text: str) -> dict[str, TierLocation]:
    """Path as the tool was given it -> row; rows of another shape, and paths that are there twice,
    are left out."""
    rows: dict[str, TierLocation] = {}
    seen_twice = set()
    columns: list[str] = []
    for line in text.split("\n"):
        cells = _GAP.split(line.strip())
        names = [_COLUMNS.get(cell.lower(), cell.lower()) for cell in cells]
        if names[0] == "path" and "object_storage_bytes" in names:
            columns = names
            continue
        row = _row(dict(zip(columns, cells, strict=True))) if len(cells) == len(columns) else None
        if row is not None and rows.setdefault(row.path, row) != row:
            seen_twice.add(row.path)
    return {path: row for path, row in rows.items() if path not in seen_twice}


def verdict_of(row: TierLocation, size_bytes: int) -> Verdict:
    """Residency from one row; `size_bytes` is what stat said, which must agree with the row."""
    if row.file_type != "regular":
        return Verdict("unknown", reason=f"weka calls it a {row.file_type}: ask for files")
    if abs(row.size.size_bytes - size_bytes) > row.size.slack_bytes:
        return Verdict("unknown", reason="weka and stat differ about the size")
    missing_bytes = size_bytes - row.on_ssd.size_bytes
    slack_bytes = row.on_ssd.slack_bytes + row.size.slack_bytes
    if not row.away.size_bytes or missing_bytes <= slack_bytes:
        return Verdict("resident", 0, _SOURCE)
    state: State = "partial" if row.on_ssd.size_bytes else "released"
    return Verdict(state, missing_bytes, _SOURCE)


def ask(files: Sequence[Seen], until_s: float) -> Told:
    """The tool needs a login, which it keeps in the caller's home."""
    argv = ["weka", "fs", "tier", "location", "--raw-units"]
    return ask_tool(argv, files, until_s, _parsed, extra_environment=_home())


def prefetch(root: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Fetching pins nothing: the policy may release the files again."""
    return batch_commands("weka fs tier fetch", "-n 512 -P 64", root, paths)


def _parsed(text: str, files: Sequence[Seen]) -> Mapping[str, Verdict]:
    rows = parse_tier_locations(text)
    return {
        each.full: verdict_of(rows[each.full], each.size_bytes)
        for each in files
        if each.full in rows
    }


def _row(cells: Mapping[str, str]) -> TierLocation | None:
    size = parse_size(cells.get("file_size", ""))
    write = parse_size(cells.get("ssd_write_cache_bytes", ""))
    read = parse_size(cells.get("ssd_read_cache_bytes", ""))
    away = parse_size(cells.get("object_storage_bytes", ""))
    far = [parse_size(cells.get(name, "0")) for name in _COLUMNS.values() if "remote" in name]
    if size is None or write is None or read is None or away is None:
        return None
    for each in far:
        if each is None:
            return None
        away = _sum(away, each)
    return TierLocation(cells["path"], cells.get("file_type", ""), size, _sum(write, read), away)


def _sum(one: Size, other: Size) -> Size:
    return Size(one.size_bytes + other.size_bytes, one.slack_bytes + other.slack_bytes)


def _home() -> dict[str, str]:
    import os
    import pwd

    try:
        return {"HOME": pwd.getpwuid(os.geteuid()).pw_dir}
    except KeyError:
        return {}


weka = SYSTEMS.register("weka")(System(kinds=("weka",), ask=ask, prefetch=prefetch))
