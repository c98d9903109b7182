"""A node folder about to be compacted: what it holds, and whether all of it can go inside.

Only a folder of which every file is understood is taken: what is left out of the compacted form
would be lost with the folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from slurm_io.errors import StoreError
from slurm_io.store.compacted import FACT_FILES, NODE_PREFIX
from slurm_io.store.files import read_json_if_there, why
from slurm_io.store.markers import check_node_name, done_file
from slurm_io.store.parquet_part import footer_damage, stream_part
from slurm_io.store.parts import Part, list_names, list_parts, parse_part
from slurm_io.store.schema import TABLES, Table
from slurm_io.store.table_files import effective_parts

_FACT_NAMES = frozenset(FACT_FILES.values())


@dataclass(frozen=True)
class NodeFolder:
    """One node's folder as it was when it was looked at.

    `identity` is its device and inode, `done_ns` and `told_ns` when its DONE marker and its
    ``job.<node>.json`` (None without one) were written: what is another by the time of the
    removal stays.
    """

    node: str
    path: Path
    identity: tuple[int, int]
    done_ns: int
    told_ns: int | None
    parts: tuple[Part, ...]
    files: int

    def stream(self, table: Table) -> Iterator[pa.Table]:
        """All rows of a table, a batch at a time, oldest part first, text as codes."""
        for part in self._of(table):
            yield from stream_part(self.path / part.file_name, table)

    def damage(self, table: Table) -> list[dict[str, Any]]:
        """What the footers of the table's parts note."""
        return [
            entry for part in self._of(table) for entry in footer_damage(self.path / part.file_name)
        ]

    def has(self, table: Table) -> bool:
        """Whether there is a file of the table."""
        return any(part.table == table.name for part in self.parts)

    def facts(self, store: Path) -> dict[str, Any]:
        """The node's line of ``nodes.jsonl``."""
        small = {key: read_json_if_there(self.path / name) for key, name in FACT_FILES.items()}
        done = read_json_if_there(store / done_file(self.node))
        told = read_json_if_there(store / told_file(self.node))
        return {"node": self.node, **small, "done": done, "told": told}

    def _of(self, table: Table) -> list[Part]:
        return [part for part in self.parts if part.table == table.name]


def told_file(node: str) -> str:
    """What a node of a step wrote about its own run (contracts, section 4)."""
    return f"job.{node}.json"


def look_at(store: Path, node: str) -> NodeFolder:
    """The node's folder; StoreError says why it has to stay as it is."""
    path = store / f"{NODE_PREFIX}{check_node_name(node)}"
    try:
        facts = os.lstat(path)
        done = os.lstat(store / done_file(node))
        told_ns = _written_ns(store / told_file(node))
    except OSError as exc:
        raise StoreError(f"{path} has not been delivered: {why(exc)}") from exc
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise StoreError(f"{path} is no folder of this user's")
    parts, names = effective_parts(path), list_names(path)
    _check(path, parts, names)
    identity = (facts.st_dev, facts.st_ino)
    return NodeFolder(node, path, identity, done.st_mtime_ns, told_ns, tuple(parts), len(names))


def _written_ns(path: Path) -> int | None:
    return os.lstat(path).st_mtime_ns if os.path.lexists(path) else None


def _check(path: Path, parts: list[Part], names: list[str]) -> None:
    unsealed = [part.file_name for part in parts if part.suffix != "parquet"]
    if unsealed:
        raise StoreError(f"{path / unsealed[0]} is not sealed")
    for name in names:
        part = parse_part(name)
        if name not in _FACT_NAMES and (part is None or part.table not in TABLES):
            raise StoreError(f"{path / name} is no file that could be compacted")
    if {part.file_name for part in parts} - set(names) or len(parts) != len(
        {part.file_name for part in list_parts(path) if part.suffix == "parquet"}
    ):
        raise StoreError(f"{path} changes while it is looked at")
