"""datatrove's .ds files: size from index and metadata."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.model import Tokens
from tests.staging.manifest.imports.reading import foreign, notes, problems, rows, written


def index(*ends: int) -> bytes:
    return struct.pack(f"<{len(ends)}Q", *ends)


def test_size_from_index_and_metadata(tmp_path: Path) -> None:
    written(tmp_path / "0.ds", bytes(40))
    written(tmp_path / "0.ds.index", index(4, 10))
    written(tmp_path / "0.ds.metadata", "org/tok|4\n10\n10 T")
    written(tmp_path / "0.ds.loss", bytes(10))
    result = foreign(tmp_path, root=tmp_path)
    assert result.format == "datatrove"
    assert rows(result) == {
        "0.ds": (40, None),
        "0.ds.index": (16, None),
        "0.ds.loss": (10, None),
        "0.ds.metadata": (17, None),
    }
    assert result.problems == ()
    assert result.manifest.header.tokens == Tokens("uint32")
    written(tmp_path / "0.ds", bytes(38))
    assert problems(foreign(tmp_path, root=tmp_path)) == [("size", "0.ds")]


@pytest.mark.parametrize(("size", "dtype"), [(20, "uint16"), (40, "uint32")])
def test_without_metadata_the_file_decides_the_type(tmp_path: Path, size: int, dtype: str) -> None:
    written(tmp_path / "0.ds", bytes(size))
    written(tmp_path / "0.ds.index", index(10))
    result = foreign(tmp_path / "0.ds.index")
    assert rows(result)["0.ds"] == (size, None)
    assert result.manifest.header.tokens == Tokens(dtype)


def test_a_size_nothing_states_stays_unknown(tmp_path: Path) -> None:
    written(tmp_path / "0.ds", bytes(33))
    written(tmp_path / "0.ds.index", index(10))
    result = foreign(tmp_path)
    assert rows(result)["0.ds"] == (None, None)
    assert "1 .ds files whose size nothing states" in notes(result)
    assert problems(result) == [("size", "0.ds")]  # an odd number of bytes is no token file


def test_vocabulary(tmp_path: Path) -> None:
    written(tmp_path / "0.ds", bytes(20))
    written(tmp_path / "0.ds.index", index(10))
    assert problems(foreign(tmp_path, vocabulary=65_537)) == [("contradiction", "0.ds")]
    assert problems(foreign(tmp_path, vocabulary=65_536)) == []


@pytest.mark.parametrize(
    ("index_bytes", "metadata", "reason"),
    [
        (index(10)[:-1], "t|2\n10", "truncated"),
        (index(2**64 - 1), "t|2\n10", "damaged"),
        (index(10), "t|2\nten", "metadata line 2"),
        (index(10), "t|2\n" + "9" * 30, "metadata line 2"),
    ],
)
def test_damage_is_named(tmp_path: Path, index_bytes: bytes, metadata: str, reason: str) -> None:
    written(tmp_path / "0.ds", bytes(20))
    written(tmp_path / "0.ds.index", index_bytes)
    written(tmp_path / "0.ds.metadata", metadata)
    with pytest.raises(ManifestError, match=reason):
        foreign(tmp_path)
