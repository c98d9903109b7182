"""Hugging Face datasets on disk: which files, and what their JSON does not say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_io.errors import ManifestError
from tests.staging.manifest.imports.reading import (
    FIXTURES,
    by_path,
    foreign,
    notes,
    problems,
    rows,
    written,
)

STATE = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": "train"}
INFO: dict[str, Any] = {
    "dataset_name": "c4",
    "download_checksums": None,
    "features": {},
    "splits": {"train": {"name": "train", "num_bytes": 829, "num_examples": 9}},
}


def test_a_saved_dataset_dict(tmp_path: Path) -> None:
    written(tmp_path / "dataset_dict.json", {"splits": ["train", "test"]})
    for split in ("train", "test"):
        written(tmp_path / split / "state.json", STATE)
        written(tmp_path / split / "dataset_info.json", INFO)
        written(tmp_path / split / "data-00000-of-00001.arrow", b"12345")
    result = foreign(tmp_path, root=tmp_path)
    assert result.format == "huggingface"
    assert result.problems == ()
    assert len(rows(result)) == 7
    assert rows(result)["train/data-00000-of-00001.arrow"] == (5, None)
    assert by_path(result)["train/state.json"].role == "metadata"
    assert "829 bytes in memory" in notes(result)


def test_sizes_are_not_num_bytes() -> None:
    result = foreign(FIXTURES / "imports/huggingface/state.json")
    assert [size for path, (size, _) in rows(result).items() if path.endswith(".arrow")] == [
        None,
        None,
    ]


def test_the_cache_names_its_files_after_dataset_and_split(tmp_path: Path) -> None:
    info = {**INFO, "splits": {"train": {"num_bytes": 5, "shard_lengths": [3, 2]}, "test": {}}}
    info["download_checksums"] = {"https://h/a": {"num_bytes": 3, "checksum": "ab" * 32}}
    result = foreign(written(tmp_path / "dataset_info.json", info))
    assert list(rows(result)) == [
        "c4-test.arrow",
        "c4-train-00000-of-00002.arrow",
        "c4-train-00001-of-00002.arrow",
        "dataset_info.json",
    ]
    assert "1 download_checksums are of the downloads" in notes(result)


def test_missing_files_are_told(tmp_path: Path) -> None:
    written(tmp_path / "state.json", STATE)
    assert problems(foreign(tmp_path, root=tmp_path)) == [("missing", "data-00000-of-00001.arrow")]


@pytest.mark.parametrize(
    ("name", "document", "reason"),
    [
        ("state.json", {"_data_files": [{"filename": "../x"}]}, r"holds '..'"),
        ("state.json", {"_data_files": [{"filename": "a"}, {"filename": "a"}]}, r"stands twice"),
        ("state.json", {"_data_files": [{}]}, r"lacks filename"),
        ("state.json", {"_data_files": "a"}, r"must be a list"),
        ("dataset_dict.json", {"splits": ["../up"]}, r"cannot be a split"),
        ("dataset_dict.json", {"splits": [".."]}, r"cannot be a split"),
        ("dataset_dict.json", {"splits": ["gone"]}, r"gone/state.json: is named but missing"),
        ("dataset_info.json", {"features": {}, "splits": None}, r"names no splits"),
        ("dataset_info.json", {**INFO, "dataset_name": None}, r"no dataset_name"),
        ("dataset_info.json", {**INFO, "dataset_name": "../x"}, r"holds '..'"),
        (
            "dataset_info.json",
            {**INFO, "splits": {"a": {"num_bytes": -3}}},
            r"num_bytes: -3",
        ),
    ],
)
def test_bad_files_name_place_and_fault(
    tmp_path: Path, name: str, document: Any, reason: str
) -> None:
    with pytest.raises(ManifestError, match=reason):
        foreign(written(tmp_path / name, document), "huggingface")


def test_a_linked_state_is_not_followed(tmp_path: Path) -> None:
    written(tmp_path / "outside/state.json", STATE)
    written(tmp_path / "in/dataset_dict.json", {"splits": ["train"]})
    (tmp_path / "in/train").symlink_to(tmp_path / "outside")
    with pytest.raises(ManifestError, match="symbolic link"):
        foreign(tmp_path / "in")
