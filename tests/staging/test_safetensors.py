"""Headers of safetensors: exact sizes, promised tensors, hostile headers."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.staging.safetensors import (
    MAX_HEADER_BYTES,
    IndexCheck,
    MissingTensor,
    SafetensorsError,
    ShardCheck,
    check_index,
    check_shard,
    parse_header,
    parse_index,
    read_header,
)

G04 = Path(__file__).parent.parent / "fixtures/cases/G04"
F32 = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}


@contextmanager
def opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


def check(path: Path) -> ShardCheck:
    with opened(path) as fd:
        return check_shard(fd, path.name)


def shard(tmp_path: Path, header: Any, data: bytes = bytes(16)) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def judged(index: str, folder: Path = G04) -> IndexCheck:
    weights, total = parse_index((G04 / index).read_bytes(), index)
    return check_index(weights, total, lambda name: check(folder / name))


class TestCaseG04:
    expected = json.loads((G04 / "expected.json").read_text())["answer"]

    @pytest.mark.parametrize(
        "index", ["index_ok.json", "index_total_96.json", "index_total_filebytes.json"]
    )
    def test_an_index_with_a_wrong_total_is_fine_with_a_warning(self, index: str) -> None:
        result = judged(index)
        assert result.ok  # must_not: index_total_96 corrupt
        assert result.tensor_bytes == self.expected["tensor_bytes"]
        assert result.file_bytes == self.expected["file_bytes"]
        assert result.missing == ()
        warn = self.expected[index].get("warn")
        assert result.warnings == ((warn,) if warn else ())

    def test_a_promised_tensor_that_no_shard_holds_is_damage(self) -> None:
        result = judged("index_missing_tensor.json")
        assert not result.ok
        wanted = self.expected["index_missing_tensor.json"]["missing"]
        assert result.missing == tuple(MissingTensor(**row) for row in wanted)

    def test_a_truncated_shard_shows_without_reading_its_data(self) -> None:
        result = check(G04 / "truncated/model-00002-of-00002.safetensors")
        wanted = self.expected["truncated/model-00002-of-00002.safetensors"]
        assert (result.ok, result.expected_bytes, result.bytes) == (
            wanted["ok"],
            wanted["expected_bytes"],
            wanted["bytes"],
        )
        assert result.reason is not None
        assert "112" in result.reason


def test_a_missing_shard_misses_all_its_tensors(tmp_path: Path) -> None:
    weights = {"a": "one.safetensors", "b": "two.safetensors"}
    path = shard(tmp_path, {"a": F32})
    result = check_index(weights, 16, lambda name: check(path) if name[0] == "o" else None)
    assert not result.ok
    assert result.missing == (MissingTensor("b", "two.safetensors"),)
    assert result.warnings == ()  # totals say nothing while a shard is missing


def test_tensors_nobody_asked_for_are_counted(tmp_path: Path) -> None:
    path = shard(tmp_path, {"a": F32, "__metadata__": {"format": "pt"}})
    result = check_index({"a": "m"}, None, lambda name: check(path))
    assert (result.ok, result.unlisted) == (True, 0)


def test_trailing_bytes_are_no_whole_shard(tmp_path: Path) -> None:
    result = check(shard(tmp_path, {"a": F32}, bytes(17)))
    assert not result.ok
    assert result.bytes - (result.expected_bytes or 0) == 1


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"[]", "starts with '{'"),
        (b"{", "not JSON"),
        (b'{"a":1,"a":2}', "occurs twice"),
        (b'{"a":' + b"[" * 100_000, "nested too deeply"),
        ({"a": 3}, "must be an object"),
        ({"a": {**F32, "dtype": 3}}, "dtype must be text"),
        ({"a": {**F32, "shape": [4.0]}}, "whole numbers"),
        ({"a": {**F32, "shape": [True, 4]}}, "whole numbers"),
        ({"a": {**F32, "shape": [-4]}}, "whole numbers"),
        ({"a": {**F32, "data_offsets": [0]}}, "two whole numbers"),
        ({"a": {**F32, "data_offsets": [16, 0]}}, "do not fit"),
        ({"a": {**F32, "data_offsets": [0, 2**64]}}, "two whole numbers"),
        ({"a": {**F32, "shape": [5]}}, "do not fit"),
        ({"a": {**F32, "shape": [2**62] * 1000}}, "do not fit"),
        ({"a": F32, "b": F32}, "the one before ends at 16"),  # overlap
        ({"a": F32, "b": {**F32, "data_offsets": [20, 36]}}, "begins at 20"),  # hole
    ],
)
def test_a_header_that_cannot_be_is_refused(tmp_path: Path, header: Any, reason: str) -> None:
    result = check(shard(tmp_path, header))
    assert not result.ok
    assert result.header is None
    assert reason in (result.reason or "")


def test_a_length_from_the_file_allocates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "bomb.safetensors"
    for length in (2**64 - 1, MAX_HEADER_BYTES + 1, MAX_HEADER_BYTES):
        path.write_bytes(struct.pack("<Q", length) + b"{}")
        with opened(path) as fd, pytest.raises(SafetensorsError, match="damaged|truncated"):
            read_header(fd, "bomb")


def test_empty_and_zero_sized_tensors_and_odd_dtypes_are_fine(tmp_path: Path) -> None:
    header = {
        "none": {"dtype": "F32", "shape": [0, 7], "data_offsets": [0, 0]},
        "half": {"dtype": "F4", "shape": [4], "data_offsets": [0, 2]},
        "eight": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [2, 4]},
        "scalar": {"dtype": "BF16", "shape": [], "data_offsets": [4, 6]},
        "newer": {"dtype": "Q3_X", "shape": [9], "data_offsets": [6, 16]},
    }
    assert check(shard(tmp_path, header)).ok


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{}", "no weight_map"),
        (b'{"weight_map": {}}', "no weight_map"),
        (b'{"weight_map": {"a": 3}}', "must name a file"),
        (b'{"weight_map": {"a": "x", "a": "y"}}', "occurs twice"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_an_index_that_cannot_be_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(SafetensorsError, match=reason):
        parse_index(text, "index.json")


@pytest.mark.parametrize("total", ['"64"', "-1", "true", "64.5", "[]", "1e400", "null"])
def test_a_total_that_is_no_number_is_not_said(total: str) -> None:
    text = f'{{"metadata": {{"total_size": {total}}}, "weight_map": {{"a": "s"}}}}'.encode()
    assert parse_index(text, "index.json")[1] is None


def test_a_total_written_as_a_float_counts() -> None:
    text = b'{"metadata": {"total_size": 64.0}, "weight_map": {"a": "s"}}'
    assert parse_index(text, "index.json")[1] == 64


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 50), max_size=8))
def test_any_right_header_says_its_own_size(sizes: list[int]) -> None:
    header, end = {}, 0
    for number, size in enumerate(sizes):
        header[f"t{number}"] = {"dtype": "U8", "shape": [size], "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    assert parse_header(text, "x").expected_bytes == 8 + len(text) + sum(sizes)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 2**64 - 1), st.booleans())
def test_no_bytes_crash_the_reader(text: bytes, n: int, own: bool) -> None:
    fd = os.memfd_create("shard")
    try:
        os.write(fd, struct.pack("<Q", len(text) if own else n) + text)
        result = check_shard(fd, "x")
    finally:
        os.close(fd)
    assert result.ok == (result.expected_bytes == result.bytes and result.header is not None)
