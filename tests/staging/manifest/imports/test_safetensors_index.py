"""Sharded models as a source; case G04 through the importer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from slurm_io.errors import ManifestError
from tests.staging.manifest.imports.reading import (
    FIXTURES,
    foreign,
    notes,
    problems,
    rows,
    written,
)

G04 = FIXTURES / "cases/G04"
EXPECTED = json.loads((G04 / "expected.json").read_text())["answer"]
SECOND = "model-00002-of-00002.safetensors"


@pytest.mark.parametrize(
    "name", ["index_ok.json", "index_total_96.json", "index_total_filebytes.json"]
)
def test_wrong_totals_are_notes(name: str) -> None:
    result = foreign(G04 / name, root=G04)
    assert result.format == "safetensors_index"
    assert result.problems == ()
    assert rows(result)[SECOND] == (112, None)
    warn = EXPECTED[name].get("warn")
    assert (warn in notes(result)) if warn else ("total_size" not in notes(result))


def test_a_promised_tensor_that_is_missing() -> None:
    result = foreign(G04 / "index_missing_tensor.json", root=G04)
    assert [{"tensor": p.tensor, "shard": p.path} for p in result.problems] == EXPECTED[
        "index_missing_tensor.json"
    ]["missing"]


def test_a_truncated_shard(tmp_path: Path) -> None:
    shutil.copytree(G04, tmp_path / "model")
    shutil.copy(G04 / "truncated" / SECOND, tmp_path / "model")
    result = foreign(tmp_path / "model/index_ok.json", root=tmp_path / "model", hashing=True)
    wanted = EXPECTED[f"truncated/{SECOND}"]
    assert [(p.kind, p.path, p.expected, p.found) for p in result.problems] == [
        ("size", SECOND, wanted["expected_bytes"], wanted["bytes"])
    ]
    assert rows(result)[SECOND] == (112, None)  # what it must be; no digest of a bad file


def test_a_damaged_header_and_a_missing_shard(tmp_path: Path) -> None:
    shutil.copy(G04 / "index_ok.json", tmp_path / "m.safetensors.index.json")
    written(tmp_path / SECOND, b"garbage!garbage!")
    result = foreign(tmp_path, root=tmp_path, hashing=True)
    assert problems(result) == [
        ("corrupt", SECOND),
        ("missing", "model-00001-of-00002.safetensors"),
    ]
    assert rows(result)[SECOND] == (None, None)


def test_without_a_copy_there_are_names_only() -> None:
    result = foreign(G04 / "index_ok.json")
    assert rows(result)[SECOND] == (None, None)
    assert result.problems == ()


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"weight_map": {"a": "../x"}}, r"holds '..'"),
        ({"weight_map": {"a": "/x"}}, r"is absolute"),
        ({"weight_map": {}}, r"no weight_map"),
        ({"weight_map": {"a": None}}, r"must name a file"),
    ],
)
def test_bad_indexes(tmp_path: Path, document: object, reason: str) -> None:
    path = written(tmp_path / "m.safetensors.index.json", document)
    for root in (None, tmp_path):
        with pytest.raises(ManifestError, match=reason):
            foreign(path, root=root)


def test_a_folder_of_two_indexes_must_be_told_which(tmp_path: Path) -> None:
    for name in "ab":
        shutil.copy(G04 / "index_ok.json", tmp_path / f"{name}.safetensors.index.json")
    with pytest.raises(ManifestError, match="holds 2 files"):
        foreign(tmp_path)
