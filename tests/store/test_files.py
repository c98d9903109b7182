"""Small files: replaced whole, read with suspicion."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from slurm_io.errors import StoreError
from slurm_io.store.files import read_json, read_json_if_there, write_json_atomic
from slurm_io.store.parts import Part, list_parts, next_number, parse_part


@pytest.mark.parametrize("fsync", [False, True])
def test_json_round_trip(fsync: bool, tmp_path: Path) -> None:
    path = tmp_path / "meta.json"
    for obj in ({"a": [1, None, "é\udcff"]}, {"b": 2}):
        write_json_atomic(path, obj, fsync)
        assert read_json(path) == obj
    assert [entry.name for entry in tmp_path.iterdir()] == ["meta.json"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("obj", [{"a": float("nan")}, {"a": object()}])
def test_what_is_not_json_leaves_the_old_file(obj: object, tmp_path: Path) -> None:
    path = tmp_path / "meta.json"
    write_json_atomic(path, {"old": 1})
    with pytest.raises(StoreError, match="meta.json"):
        write_json_atomic(path, obj)
    assert read_json(path) == {"old": 1}


def test_a_failed_write_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "meta.json"
    write_json_atomic(path, {"old": 1})

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(StoreError, match="No space left"):
            write_json_atomic(path, {"new": 1})
    assert read_json(path) == {"old": 1}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("keep")
    (tmp_path / "meta.json").symlink_to(victim)
    (tmp_path / f".meta.json.{os.getpid()}.tmp").symlink_to(victim)
    write_json_atomic(tmp_path / "meta.json", {"a": 1})
    assert victim.read_text() == "keep"
    assert json.loads((tmp_path / "meta.json").read_text()) == {"a": 1}


def test_missing_is_none_only_where_asked(tmp_path: Path) -> None:
    assert read_json_if_there(tmp_path / "no.json") is None
    with pytest.raises(StoreError, match="no.json"):
        read_json(tmp_path / "no.json")
    (tmp_path / "no.json").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="no.json"):
        read_json_if_there(tmp_path / "no.json")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("block.arrows", Part("block", None, "arrows")),
        ("block-0003.parquet", Part("block", 3, "parquet")),
        ("block-12345.arrows", Part("block", 12345, "arrows")),
        ("block-3.parquet", None),
        ("block-00003.parquet", None),  # another spelling of 3: two parts of one number
        (".block-0003.parquet", None),
        ("block-0003.parquet.tmp", None),
        ("Block.arrows", None),
        ("block.arrows\n", None),
        ("../block.arrows", None),
    ],
)
def test_part_names(name: str, part: Part | None) -> None:
    assert parse_part(name) == part
    if part is not None:
        assert part.file_name == name


def test_parts_in_order_the_live_one_last(tmp_path: Path) -> None:
    names = [
        "b.arrows",
        "b-0010.parquet",
        "b-0009.arrows",
        "a.arrows",
        "b-0009.parquet",
        "meta.json",
    ]
    for name in names:
        (tmp_path / name).touch()
    parts = list_parts(tmp_path)
    assert [part.file_name for part in parts] == [
        "a.arrows", "b-0009.arrows", "b-0009.parquet", "b-0010.parquet", "b.arrows",
    ]  # fmt: skip
    assert (next_number(parts, "b"), next_number(parts, "a")) == (11, 0)
