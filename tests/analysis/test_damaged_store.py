"""One damaged small file of one node: the report goes on and says of whom what is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_io.analysis.api import analyse
from slurm_io.analysis.reports.base import FORMATS
from slurm_io.errors import StoreError
from slurm_io.store import compacted as compacted_module
from slurm_io.store.compact import compact
from slurm_io.store.markers import mark_done
from tests.analysis.stand_in import Job, Rank, train
from tests.analysis.test_real_store import write_store

NODES = ("n1", "n2", "n3")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    ranks = [
        train(Rank(number, node, 1000 + number), 250, 0.05, lambda k: (0.05, "storage"))
        for number, node in enumerate(NODES)
    ]
    folder = write_store(tmp_path / "store", Job(ranks).store())
    for node in NODES:
        meta = json.loads((folder / f"node={node}/meta.json").read_text())
        meta["job"] = json.loads((folder / "job.json").read_text())["job"]
        (folder / f"node={node}/meta.json").write_text(json.dumps(meta))
        (folder / f"node={node}/self.json").write_text('{"cpu_s": 1.0, "wall_s": 100.0}')
        mark_done(folder, node, {"ts_ns": 1, "clean": True, "missing": []})
    return folder


def missing(report: dict[str, Any], source: str) -> list[str]:
    return [one["reason"] for one in report["coverage"]["missing"] if one["source"] == source]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00\x01"])
@pytest.mark.parametrize("name", ["meta.json", "self.json", "checks.json"])
def test_the_report_goes_on_and_names_the_node(store: Path, name: str, text: str) -> None:
    before = analyse(store)
    (store / "node=n2" / name).write_text(text)
    report = analyse(store)
    assert report["verdict"] == before["verdict"] == "storage"
    assert report["coverage"]["nodes_seen"] == list(NODES)
    assert report["coverage"]["ranks_seen"] == 3
    assert report["time"]["steps"] == before["time"]["steps"]
    (reason,) = [why for why in missing(report, "node n2") if name in why]
    assert "not known" in reason
    assert not [why for node in ("n1", "n3") for why in missing(report, f"node {node}")]
    text_report = " ".join(FORMATS.get("text")(report).split())
    assert "node n2" in text_report and name in text_report


def test_what_the_others_cost_is_still_told(store: Path) -> None:
    (store / "node=n2/self.json").write_text("{")
    assert analyse(store)["overhead"]["cpu_s"] == 2.0


def test_in_a_compacted_store_too(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacted_module, "WORTHWHILE_FILES", 1)
    before = analyse(store)
    compact(store)
    path = store / "nodes.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line if '"n2"' not in line[:40] else line[:99] for line in lines))
    report = analyse(store)
    assert report["verdict"] == before["verdict"]
    assert report["time"]["steps"] == before["time"]["steps"]
    assert any("nodes.jsonl" in why for why in missing(report, "node n2"))


def test_a_damaged_meta_json_is_not_compacted_away(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacted_module, "WORTHWHILE_FILES", 1)
    (store / "node=n2/meta.json").write_text("{")
    assert list(compact(store).left) == ["n2"]
    assert (store / "node=n2/meta.json").read_text() == "{"
    assert analyse(store)["coverage"]["nodes_seen"] == list(NODES)


def test_a_damaged_job_json_costs_what_only_it_says(store: Path) -> None:
    before = analyse(store)
    (store / "job.json").write_text("{")
    report = analyse(store)
    assert report["verdict"] == before["verdict"]
    assert report["job"]["id"] == before["job"]["id"]
    assert any("job.json" in why for why in missing(report, "job"))


def test_another_schema_version_is_refused_in_one_line_by_the_command_too(store: Path) -> None:
    path = store / "job.json"
    told = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**told, "schema": 2}))
    with pytest.raises(StoreError, match="read it with a newer slurm_io"):
        analyse(store)
    done = subprocess.run(
        [sys.executable, "-m", "slurm_io", "report", store],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.strip() == (
        f"slurm-io: {path} has schema version 2, this slurm_io knows 1: "
        "read it with a newer slurm_io"
    )


@pytest.mark.parametrize("name", ["job.json", "node=n2/meta.json", "node=n3/self.json"])
def test_the_command_reports_a_store_with_a_damaged_file(store: Path, name: str) -> None:
    (store / name).write_text("{")
    done = subprocess.run(
        [sys.executable, "-m", "slurm_io", "report", "--json", store],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["verdict"] == "storage"
