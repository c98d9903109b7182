"""Job stores of several nodes as delivery leaves them, and all that can be read of one."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from slurm_io.store.deliver import deliver
from slurm_io.store.reader import open_job
from slurm_io.store.schema import TABLES
from slurm_io.store.seal import seal_spool
from tests.store.rows import random_row, write_stream

FEW_TABLES = ("steps", "waits", "log")
JOB = {"cluster": "c1", "job": "7", "restart": 0, "user": "ada", "uid": 1000}


def deliver_node(
    store: Path, node: str, tables: tuple[str, ...] = FEW_TABLES, parts: int = 2, seed: int = 0
) -> None:
    """A node with `parts` sealed parts of each table, delivered."""
    spool = store.parent / f"spool-{node}-{seed}"
    spool.mkdir()
    chance = random.Random(f"{node}{seed}")
    for number in range(parts):
        for name in tables:
            table = TABLES[name]
            first = number * 100
            rows = [random_row(table, first + index, chance) for index in range(5)]
            write_stream(spool / f"{name}.arrows", table, [rows])
        seal_spool(spool)
    meta = {"schema": 1, "node": node, "job": JOB, "kernel": f"{node}-{seed}"}
    (spool / "meta.json").write_text(json.dumps(meta))
    (spool / "self.json").write_text('{"cpu_s": 1.5}')
    deliver(spool, store, node)


def make_store(folder: Path, nodes: list[str], **settings: Any) -> Path:
    """A store of these nodes."""
    folder.mkdir(parents=True)
    told = {"schema": 1, "job": JOB, "nodes_expected": nodes}
    (folder / "job.json").write_text(json.dumps(told))
    for node in nodes:
        deliver_node(folder, node, **settings)
    return folder


def all_of(store: Path) -> dict[str, Any]:
    """Everything a store says of its nodes."""
    return {
        name: {
            "meta": node.meta,
            "self": node.self_cost,
            "checks": node.checks,
            "damage": node.damage,
            # As text: nan is not nan.
            "tables": {table: repr(node.table(table).to_pylist()) for table in TABLES},
        }
        for name, node in open_job(store).nodes.items()
    }


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
