"""MosaicML Streaming's index.json: plain, packed, merged, in streams, and hostile."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.errors import ManifestError, SlurmIoError
from tests.staging.manifest.imports.reading import (
    FIXTURES,
    by_path,
    foreign,
    notes,
    problems,
    rows,
    written,
)

SHARD: dict[str, Any] = {
    "column_encodings": ["int"],
    "column_names": ["x"],
    "column_sizes": [8],
    "compression": None,
    "format": "mds",
    "hashes": ["sha1"],
    "raw_data": {"basename": "shard.00000.mds", "bytes": 5, "hashes": {"sha1": "ab" * 20}},
    "samples": 3,
    "size_limit": 67108864,
    "version": 2,
    "zip_data": None,
}


def index(*shards: Any, **more: Any) -> dict[str, Any]:
    return {"shards": list(shards), "version": 2, **more}


def shard(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(SHARD), **changes}


def test_plain_shards_and_the_index_itself(tmp_path: Path) -> None:
    path = written(tmp_path / "index.json", index(SHARD))
    result = foreign(path)
    assert result.format == "mosaicml"
    found = by_path(result)
    assert list(found) == ["index.json", "shard.00000.mds"]
    assert (found["shard.00000.mds"].size_bytes, found["shard.00000.mds"].digest) == (
        5,
        "sha1:" + "ab" * 20,
    )
    assert found["index.json"].role == "index"
    assert found["index.json"].size_bytes == path.stat().st_size
    assert "3 samples" in notes(result)


def test_what_streaming_wrote() -> None:
    """jsonl shards with meta files and zstd, as streaming 0.7 writes them; hashes empty."""
    result = foreign(FIXTURES / "imports/mosaicml")
    assert rows(result) == {
        "index.json": rows(result)["index.json"],
        "shard.00000.jsonl.zstd": (91, "xxh64:44bc2cf5ad770999"),
        "shard.00000.jsonl.meta.zstd": (74, "xxh64:44bc2cf5ad770999"),
        "shard.00001.jsonl.zstd": (52, None),
        "shard.00001.jsonl.meta.zstd": (71, None),
    }
    assert by_path(result)["shard.00000.jsonl.meta.zstd"].role == "metadata"
    assert "2 shard files without digests" in notes(result)


def test_packed_shards_count_unless_the_copy_holds_them_unpacked(tmp_path: Path) -> None:
    packed = {"basename": "shard.00000.mds.zstd", "bytes": 3, "hashes": {}}
    path = written(tmp_path / "index.json", index(shard(zip_data=packed)))
    assert rows(foreign(path))["shard.00000.mds.zstd"] == (3, None)
    written(tmp_path / "shard.00000.mds", b"12345")
    result = foreign(path, root=tmp_path)
    assert rows(result)["shard.00000.mds"] == (5, "sha1:" + "ab" * 20)
    assert result.problems == ()
    assert "taken unpacked" in notes(result)
    written(tmp_path / "shard.00000.mds.zstd", b"12")
    assert problems(foreign(path, root=tmp_path)) == [("size", "shard.00000.mds.zstd")]


def test_streams_in_folders_come_together(tmp_path: Path) -> None:
    for stream in ("en/train", "de/train"):
        written(tmp_path / stream / "index.json", index(SHARD))
    result = foreign(tmp_path)
    assert list(rows(result)) == [
        "de/train/index.json",
        "de/train/shard.00000.mds",
        "en/train/index.json",
        "en/train/shard.00000.mds",
    ]


def test_a_merged_index_wins_over_those_below(tmp_path: Path) -> None:
    for group in ("0", "1"):
        written(tmp_path / group / "index.json", index(SHARD))
    both = [shard(raw_data={**SHARD["raw_data"], "basename": f"{g}/s.mds"}) for g in "01"]
    written(tmp_path / "index.json", index(*both))
    assert list(rows(foreign(tmp_path))) == ["0/s.mds", "1/s.mds", "index.json"]


def test_links_to_folders_and_indexes_lead_nowhere(tmp_path: Path) -> None:
    inside = tmp_path / "data"
    written(inside / "a/index.json", index(SHARD))
    (inside / "a/loop").symlink_to(inside)
    (inside / "b").mkdir()
    (inside / "b/index.json").symlink_to(inside / "a/index.json")
    assert list(rows(foreign(inside))) == ["a/index.json", "a/shard.00000.mds"]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (index(SHARD, SHARD), r"shards\[1\].raw_data: shard.00000.mds stands twice"),
        ({"version": 3, "shards": [SHARD]}, r"version 3"),
        (index(shard(raw_data=None)), r"neither raw_data nor zip_data"),
        (index(shard(raw_data={"basename": "a", "bytes": -1})), r"raw_data.bytes: -1"),
        (index(shard(raw_data={"basename": "a", "bytes": "5"})), r"whole number, not text"),
        (index(shard(raw_data={"basename": "a", "bytes": 5.0})), r"whole number"),
        (index(shard(raw_data={"basename": "a", "bytes": True})), r"whole number, not true"),
        (index(shard(raw_data={"basename": "a", "bytes": 2**63})), r"cannot be a number of bytes"),
        (index(shard(raw_data={"basename": "a"})), r"lacks bytes"),
        (index(shard(raw_data={"bytes": 5})), r"lacks basename"),
        (index(shard(raw_data={"basename": "../a", "bytes": 5})), r"holds '..'"),
        (index(shard(raw_data={"basename": "/a", "bytes": 5})), r"is absolute"),
        (index(shard(raw_data={"basename": "a\0", "bytes": 5})), r"NUL"),
        (index(shard(raw_data={"basename": "\ud800", "bytes": 5})), r"no file name has"),
        (index(shard(raw_data=[])), r"an object|a JSON object is expected"),
        (index(), r"names no shards"),
        (index(shard(), "x"), r"shards\[1\]: a JSON object is expected"),
        ({"version": 2, "shards": {}}, r"must be a list"),
        (index(shard(raw_data={"basename": "a", "bytes": 1, "hashes": {"md5": "xy"}})), r"md5"),
    ],
)
def test_bad_indexes_name_place_and_fault(tmp_path: Path, document: Any, reason: str) -> None:
    with pytest.raises(ManifestError, match=reason) as caught:
        foreign(written(tmp_path / "index.json", document), "mosaicml")
    assert "index.json" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"shards": [', "line 1: not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"version": 2, "shards": [{"raw_data": {"basename": "a", "bytes": NaN}}]}', "NaN"),
        ('{"version": 2, "version": 2}', "occurs twice"),
        ('{"version": 2, "shards": [' + "[]," * 6_000_000 + "1]}", "too many values"),
        ('{"shards": [{"raw_data": ' + "9" * 5000 + "}]}", "not JSON"),
    ],
    ids=lambda value: value[:20],
)
def test_bombs_and_bad_json(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ManifestError, match=reason):
        foreign(written(tmp_path / "index.json", text), "mosaicml")


def test_unknown_digests_are_said_not_kept(tmp_path: Path) -> None:
    raw = {"basename": "a", "bytes": 5, "hashes": {"sha3_256": "ab", "xxh3_64": "ab" * 8}}
    result = foreign(written(tmp_path / "index.json", index(shard(raw_data=raw))))
    assert rows(result)["a"] == (5, "xxh3-64:" + "ab" * 8)
    assert "digests not kept: sha3_256" in notes(result)


def test_a_pipe_in_place_of_an_index_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "index.json")
    with pytest.raises(ManifestError, match="not a regular file"):
        foreign(tmp_path / "index.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["shards", "raw_data", "basename", "bytes", "hashes", "md5", "version"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(JSON, st.sampled_from(["basename", "bytes", "hashes", "samples", "raw_data", "zip_data"]))
def test_no_document_crashes(
    tmp_path_factory: pytest.TempPathFactory, value: Any, field: str
) -> None:
    one = shard()
    (one if field in one else one["raw_data"])[field] = value
    path = tmp_path_factory.getbasetemp() / "index.json"
    path.write_text(json.dumps(index(one)))
    try:
        foreign(path, "mosaicml")
    except SlurmIoError as error:
        assert "\n" not in str(error)
