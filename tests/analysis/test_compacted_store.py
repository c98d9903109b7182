"""A compacted store has the very report its node folders had."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_io.analysis.api import analyse
from slurm_io.store import compacted as compacted_module
from slurm_io.store.compact import compact
from slurm_io.store.markers import mark_done
from tests.analysis.stand_in import Job, Rank, train
from tests.analysis.test_real_store import write_store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compacted_module, "WORTHWHILE_FILES", 1)
    ranks = [
        train(Rank(number, node, 1000 + number), 250, 0.05, lambda k: (0.05, "storage"))
        for number, node in enumerate(("n1", "n2", "n3"))
    ]
    folder = write_store(tmp_path / "store", Job(ranks).store())
    for node in ("n1", "n2", "n3"):
        mark_done(folder, node, {"ts_ns": 1, "clean": True, "missing": []})
    return folder


def test_the_report_is_the_same(store: Path) -> None:
    before = analyse(store)
    assert before["verdict"] == "storage"
    assert before["coverage"]["nodes_seen"] == ["n1", "n2", "n3"]
    assert compact(store).nodes == ["n1", "n2", "n3"]
    assert json.dumps(analyse(store)) == json.dumps(before)


def test_one_node_beside_the_others_changes_nothing(store: Path) -> None:
    before = analyse(store)
    (store / "node=n2" / "notes").touch()
    assert list(compact(store).left) == ["n2"]
    assert json.dumps(analyse(store)) == json.dumps(before)


def test_a_damaged_table_costs_its_own_values(store: Path) -> None:
    compact(store)
    (store / "waits.parquet").write_bytes(b"no parquet")
    report = analyse(store)
    assert report["time"]["steps"] > 0
    assert any("waits.parquet" in one["reason"] for one in report["coverage"]["missing"])
