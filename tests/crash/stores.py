"""What a store must hold after a crash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slurm_io.analysis.api import analyse
from slurm_io.analysis.reports.base import FORMATS
from slurm_io.store.deliver import deliver
from slurm_io.store.reader import open_job
from tests.hook.ring_reader import Batch


def steps_of(path: Path) -> list[dict[str, Any]]:
    """The steps rows of a store or spool, in the order they stand in."""
    rows: list[dict[str, Any]] = open_job(path).table("steps").to_pylist()
    return rows


def assert_prefix(rows: list[dict[str, Any]], truth: list[Batch]) -> None:
    """Exactly the first batches of the ring, each once, in order, with their very times."""
    assert [(row["batch"], row["mono_ns"]) for row in rows] == [
        (batch.index, batch.start) for batch in truth[: len(rows)]
    ]
    assert [row["data_wait_ns"] for row in rows] == [
        batch.end - batch.start for batch in truth[: len(rows)]
    ]


def bring_home(spool: Path, store: Path) -> Path:
    """A job store with this spool delivered to it, whatever state the spool is in."""
    spec = json.loads((spool / "sampler.json").read_text())
    store.mkdir()
    told = {"schema": 1, "job": spec["job"], "nodes_expected": [spec["node"]], "spool": None}
    (store / "job.json").write_text(json.dumps({**told, "command": None, "exit_code": None}))
    deliver(spool, store, spec["node"], clean=False, missing=("killed",))
    return store


def report_of(store: Path) -> dict[str, Any]:
    """The report, rendered in every format as well."""
    report = analyse(store)
    for name in ("text", "json"):
        assert FORMATS.get(name)(report)
    return report


def said_missing(report: dict[str, Any]) -> str:
    """Everything the report says was not seen, in one text."""
    return "\n".join(f"{m['source']}: {m['reason']}" for m in report["coverage"]["missing"])
