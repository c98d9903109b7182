"""What a compacted store says of its nodes: which are inside, and their small files.

``compacted.json`` is the one word on who is inside: it is replaced last, after the tables and
``nodes.jsonl`` are durable, so these may hold more than it names and never less. A node's folder
beside it is newer than what is inside, and counts instead. Standard library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_io.errors import StoreError
from slurm_io.store.files import open_regular, read_json_if_there, write_json_atomic
from slurm_io.store.parts import list_names
from slurm_io.store.schema import SCHEMA_VERSION

MARKER = "compacted.json"
FACTS = "nodes.jsonl"
NODE_PREFIX = "node="
WORTHWHILE_FILES = 16  # a store of fewer small files gains nothing
FACT_FILES = {"meta": "meta.json", "self": "self.json", "checks": "checks.json"}
MAX_MARKER_BYTES = 64 * 1024 * 1024
MAX_LINE_BYTES = 16 * 1024 * 1024
MAX_FACTS_BYTES = 4 * 1024 * 1024 * 1024


@dataclass(frozen=True)
class Inside:
    """A node in a compacted store: when its DONE marker was written, and its rows of each table."""

    done_ns: int
    rows: dict[str, int]


def table_file(table: str) -> str:
    """File name of a compacted table."""
    return f"{table}.parquet"


def read_marker(store: Path) -> dict[str, Inside]:
    """The nodes inside; none in a store that was never compacted. StoreError names a bad marker."""
    path = store / MARKER
    told = read_json_if_there(path, MAX_MARKER_BYTES)
    if told is None:
        return {}
    version = told.get("schema")
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema version {version!r}, this slurm_io knows {SCHEMA_VERSION}: "
            "read it with a newer slurm_io"
        )
    nodes = told.get("nodes")
    if not isinstance(nodes, dict):
        raise StoreError(f"{path} names no nodes")
    return {node: _inside(path, node, entry) for node, entry in nodes.items()}


def _inside(path: Path, node: str, entry: object) -> Inside:
    done_ns = entry.get("done_ns") if isinstance(entry, dict) else None
    rows = entry.get("rows") if isinstance(entry, dict) else None
    is_counted = isinstance(rows, dict) and all(
        isinstance(count, int) and 0 <= count < 2**62 for count in rows.values()
    )
    if not isinstance(done_ns, int) or not isinstance(rows, dict) or not is_counted:
        raise StoreError(f"{path}: what it says of node {node[:80]!r} makes no sense")
    return Inside(done_ns, rows)


def write_marker(store: Path, nodes: dict[str, Inside]) -> None:
    """Say who is inside, durably and at once. Raises StoreError."""
    told = {
        node: {"done_ns": inside.done_ns, "rows": inside.rows} for node, inside in nodes.items()
    }
    write_json_atomic(store / MARKER, {"schema": SCHEMA_VERSION, "nodes": told}, fsync=True)


def read_facts(store: Path) -> Iterator[dict[str, Any]]:
    """Every line of ``nodes.jsonl``: ``{node, meta, self, checks, done, told}``, null = no file.

    Raises StoreError.
    """
    path = store / FACTS
    fd, _ = open_regular(path, MAX_FACTS_BYTES)
    with open(fd, "rb") as file:
        while line := file.readline(MAX_LINE_BYTES + 1):
            yield _fact(path, line)


def read_facts_that_are_sound(store: Path) -> tuple[dict[str, dict[str, Any]], str | None]:
    """Node -> its line of ``nodes.jsonl`` for the lines that can be read, and what is wrong with
    the first of the others. A damaged line costs its node's small files, not the job."""
    path, why = store / FACTS, None
    found: dict[str, dict[str, Any]] = {}
    try:
        fd, _ = open_regular(path, MAX_FACTS_BYTES)
    except StoreError as exc:
        return {}, str(exc)
    with open(fd, "rb") as file:
        while line := file.readline(MAX_LINE_BYTES + 1):
            try:
                told = _fact(path, line)
                found[told["node"]] = told
            except StoreError as exc:
                why = why or str(exc)
    return found, why


def _fact(path: Path, line: bytes) -> dict[str, Any]:
    try:
        if len(line) > MAX_LINE_BYTES:
            raise ValueError("a line too long")
        told = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise StoreError(f"{path} is damaged: {exc}") from exc
    parts = ("meta", "self", "checks", "done", "told")
    is_sound = (
        isinstance(told, dict)
        and isinstance(told.get("node"), str)
        and all(told.get(part) is None or isinstance(told[part], dict) for part in parts)
    )
    if not is_sound:
        raise StoreError(f"{path} is damaged: a line that is no node's")
    return dict(told)


def is_worthwhile(store: Path) -> bool:
    """Whether compacting would spare files: there are many, or some beside a compacted form."""
    names = list_names(store)
    folders = [name for name in names if node_of(name) is not None]
    if MARKER in names:
        return bool(folders)
    count = 0
    for name in folders:
        with suppress(StoreError):
            count += len(list_names(store / name))
        if count >= WORTHWHILE_FILES:
            return True
    return False


def node_of(name: str) -> str | None:
    """The node whose delivered folder bears this name; None for any other name."""
    if not name.startswith(NODE_PREFIX) or ".partial-" in name or ".old-" in name:
        return None
    return name.removeprefix(NODE_PREFIX)


def told_inside(store: Path) -> dict[str, dict[str, Any]]:
    """What ``job.<node>.json`` of each node inside said."""
    if not os.path.lexists(store / MARKER):
        return {}
    inside = read_marker(store)
    facts, _ = read_facts_that_are_sound(store)
    return {
        node: line["told"]
        for node, line in facts.items()
        if node in inside and line.get("told") is not None
    }
