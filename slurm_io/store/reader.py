"""Reads a job store, sealed or not, of one node or many: what analysis and report stand on.

A store may come from any user and any site, so it is hostile input: every file is checked for
kind, size, types and row count before it is believed. A table that is not what it should be is a
:class:`~slurm_io.errors.StoreError` that names it; a small file that is not costs itself and is
noted in the node's `damage`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from slurm_io.errors import StoreError
from slurm_io.model import JobIdentity
from slurm_io.store.compacted import FACTS, MARKER, read_facts_that_are_sound, read_marker
from slurm_io.store.compacted_tables import CompactedTables
from slurm_io.store.files import why
from slurm_io.store.parts import list_names, parse_part
from slurm_io.store.schema import TABLES, Table
from slurm_io.store.small_files import (
    Damage,
    checked_meta,
    damaged,
    encodable,
    is_known_version,
    read_or_note,
    read_small_files,
)
from slurm_io.store.table_files import narrowed, read_damage, read_table

MAX_NODES = 65536


@dataclass(frozen=True)
class NodeStore:
    """One node's folder, or its place in a compacted store (`compacted` is not None).

    `meta` is ``{}`` and `self_cost`, `checks` are None where the file is missing or damaged.
    `damage` lists what could not be read: of its streams, as
    :class:`slurm_io.store.recover.Damage` fields, and of its small files.
    """

    node: str
    path: Path
    meta: dict[str, Any]
    self_cost: dict[str, Any] | None
    checks: dict[str, Any] | None
    damage: list[dict[str, Any]] = field(default_factory=list)
    compacted: CompactedTables | None = None

    def table(self, name: str, columns: Sequence[str] | None = None, every: int = 1) -> pa.Table:
        """All rows of a table, sealed or not, sorted by ts_ns; what was not recorded is null.

        `columns` reads only the clocks and these: a day's ``process`` table is six million rows.
        `every` keeps the rows of each so many-th second only, where that spares work.
        """
        table = _known(name)
        if self.compacted is not None:
            return self.compacted.read(self.node, narrowed(table, columns), every)
        try:
            return read_table(self.path, table, columns, every)
        except StoreError:
            inside = _compacted_since(self.path, self.node)
            if inside is None:
                raise
        return inside.read(self.node, narrowed(table, columns), every)


@dataclass(frozen=True)
class JobStore:
    """A whole job. `job` is None when no file of the store says which job it is about.

    `nodes_expected` are the nodes the job ran on as far as known, `extra` is ``job.json``,
    `checkpoints` is ``checkpoints.json`` (None: nobody looked at what the job saved), and
    `damage` what could not be read of the files that are no node's.
    """

    path: Path
    job: JobIdentity | None
    nodes: dict[str, NodeStore]
    nodes_expected: tuple[str, ...]
    extra: dict[str, Any]
    damage: list[Damage] = field(default_factory=list)
    checkpoints: dict[str, Any] | None = None

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """As :meth:`NodeStore.table` over all nodes, by node, with a last column ``node``."""
        tables = [_with_node(node.table(name, columns), node.node) for node in self.nodes.values()]
        if not tables:
            return _with_node(read_table(None, _known(name), columns), "")
        return pa.concat_tables(tables)

    def together(
        self, name: str, columns: Sequence[str] | None = None, every: int = 1
    ) -> Iterator[tuple[str, pa.Table]]:
        """What :meth:`NodeStore.table` says of each node that is compacted, in one pass.

        Text stays as codes. A thousand nodes are read about as fast as one of as many rows.
        """
        inside = [node.node for node in self.nodes.values() if node.compacted is not None]
        if inside:
            tables = self.nodes[inside[0]].compacted
            assert tables is not None
            yield from tables.read_together(inside, narrowed(_known(name), columns), every)


def open_job(path: Path) -> JobStore:
    """Open a job store, a single node folder (spool), or a job folder of node folders.

    StoreError when the path is none of them, when a newer slurm_io wrote it, or when so much of it
    is damaged that no node can be told.
    """
    path = Path(path)
    before = _written(path / MARKER)
    try:
        return _open(path)
    except StoreError:
        if _written(path / MARKER) == before:
            raise
    return _open(path)  # it was compacted under our hands


def _open(path: Path) -> JobStore:
    names = _names(path)
    damage: list[Damage] = []
    told = encodable(read_or_note(path / "job.json", damage))
    is_sound = told is not None and is_known_version(path / "job.json", told, damage)
    extra = told if told is not None and is_sound else {}
    if _is_node_folder(names):
        nodes = [_open_node(path, None)]
    else:
        folders = [name for name in names if _holds_node(path, name, damage)]
        nodes = [_open_node(path / name, name.removeprefix("node=")) for name in folders]
        nodes += _open_compacted(path, {node.node for node in nodes})
    if not nodes and told is None:
        if damage:
            raise StoreError(str(damage[0]["reason"]))
        raise StoreError(f"{path} holds no profile: no job.json, meta.json or node folder in it")
    if len(nodes) > MAX_NODES:
        raise StoreError(f"{path} holds more than {MAX_NODES} nodes")
    job = _job(path, extra, nodes, damage)
    by_name = {node.node: node for node in sorted(nodes, key=lambda node: node.node)}
    expected = _expected(path, extra, job, by_name, damage)
    saved = encodable(read_or_note(path / "checkpoints.json", damage))
    return JobStore(path, job, by_name, expected, extra, damage, saved)


def _known(name: str) -> Table:
    if name not in TABLES:
        raise StoreError(f"there is no table {name!r}; there are: {', '.join(TABLES)}")
    return TABLES[name]


def _names(path: Path) -> list[str]:
    if not path.is_dir():
        raise StoreError(f"{path} is no folder: give a job store, e.g. slurm-io-<job id>")
    return list_names(path)


def _is_node_folder(names: list[str]) -> bool:
    return "meta.json" in names or any(parse_part(name) is not None for name in names)


def _holds_node(path: Path, name: str, damage: list[Damage]) -> bool:
    """Whether `name` is a real sub-folder (no link) of a node that has been delivered whole.

    One that cannot be listed costs its own node and is noted.
    """
    if name.startswith(".") or ".partial-" in name or ".old-" in name:
        return False
    try:
        if not stat.S_ISDIR(os.lstat(path / name).st_mode):
            return False
    except OSError as exc:
        raise StoreError(f"cannot read {path / name}: {why(exc)}") from exc
    is_named = name.startswith("node=")
    try:
        return _is_node_folder(list_names(path / name)) or is_named
    except StoreError as error:
        if not os.path.lexists(path / name):
            raise  # it was compacted under our hands
        lost = "what that node recorded is not in this report"
        of = {"node": name.removeprefix("node=")} if is_named else {}
        damage.append({"file": name, "reason": str(error), "missing": lost, **of})
        return False


def _open_compacted(path: Path, beside: set[str]) -> list[NodeStore]:
    """The nodes inside a compacted store but those with a folder beside it, which is newer."""
    inside = read_marker(path)
    wanted = set(inside) - beside
    if not wanted:
        return []
    tables = CompactedTables(path, inside)
    facts, damage = read_facts_that_are_sound(path)
    return [_compacted_node(path, tables, node, facts.get(node), damage) for node in sorted(wanted)]


def _compacted_node(
    path: Path, tables: CompactedTables, node: str, line: dict[str, Any] | None, damage: str | None
) -> NodeStore:
    """`line` is None for a node whose line is damaged or lost: its rows are there all the same."""
    noted: list[Damage] = []
    if line is None:
        noted.append({**damaged("meta.json", damage or "it has no line"), "file": FACTS})
        line = {}
    line = encodable(line) or {}
    meta = checked_meta(path / FACTS, line.get("meta") or {}, noted)
    return NodeStore(
        node=node,
        path=path,
        meta=meta,
        self_cost=line.get("self"),
        checks=line.get("checks"),
        damage=[*noted, *meta.get("damage", [])],
        compacted=tables,
    )


def _compacted_since(folder: Path, node: str) -> CompactedTables | None:
    """Where the rows of a node are whose folder is gone since the store was opened."""
    if os.path.lexists(folder):
        return None
    inside = read_marker(folder.parent)
    return CompactedTables(folder.parent, inside) if node in inside else None


def _written(path: Path) -> tuple[int, int] | None:
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns


def _open_node(path: Path, name: str | None) -> NodeStore:
    small = read_small_files(path)
    told = small.meta.get("node")
    node = name or (told if isinstance(told, str) and told else path.resolve().name)
    return NodeStore(
        node=node,
        path=path,
        meta=small.meta,
        self_cost=small.self_cost,
        checks=small.checks,
        damage=[*small.damage, *small.meta.get("damage", []), *read_damage(path)],
    )


def _job(
    path: Path, extra: dict[str, Any], nodes: list[NodeStore], damage: list[Damage]
) -> JobIdentity | None:
    """The first that is whole: job.json's, then the nodes'."""
    metas = [(_meta_file(node), node.meta) for node in nodes]
    for file, data in [(path / "job.json", extra), *metas]:
        if isinstance(data.get("job"), dict):
            try:
                return JobIdentity.from_dict(data["job"])
            except TypeError as exc:
                damage.append(damaged(file.name, f"{file}: job is incomplete: {exc}"))
    return None


def _meta_file(node: NodeStore) -> Path:
    return node.path / ("meta.json" if node.compacted is None else FACTS)


def _expected(
    path: Path,
    extra: dict[str, Any],
    job: JobIdentity | None,
    nodes: dict[str, NodeStore],
    damage: list[Damage],
) -> tuple[str, ...]:
    known = job.nodes if job is not None and job.nodes else tuple(nodes)
    told = extra.get("nodes_expected")
    if told is None:
        return known
    if not isinstance(told, list) or not all(isinstance(node, str) for node in told):
        damage.append(damaged("job.json", f"{path}/job.json: nodes_expected is no list of names"))
        return known
    return tuple(told)


def _with_node(rows: pa.Table, node: str) -> pa.Table:
    names = pa.repeat(pa.scalar(node, pa.string()), rows.num_rows)
    return rows.append_column(pa.field("node", pa.string(), nullable=False), names)
