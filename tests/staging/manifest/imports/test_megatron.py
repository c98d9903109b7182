"""Megatron pairs as a source: sizes to the byte, types, vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.model import Tokens
from tests.staging.manifest.imports.reading import by_path, foreign, notes, problems, rows, written
from tests.staging.test_megatron import mmap_index


def pair(folder: Path, name: str, sizes: list[int], code: int = 8, item_bytes: int = 2) -> None:
    written(folder / f"{name}.idx", mmap_index(sizes, code, item_bytes))
    written(folder / f"{name}.bin", bytes(sum(sizes) * item_bytes))


def test_a_pair(tmp_path: Path) -> None:
    pair(tmp_path, "text", [3, 5])
    result = foreign(tmp_path / "text.idx", root=tmp_path)
    assert result.format == "megatron"
    assert rows(result) == {"text.bin": (16, None), "text.idx": (74, None)}
    assert by_path(result)["text.idx"].role == "index"
    assert result.manifest.header.tokens == Tokens("uint16")
    assert result.problems == ()


@pytest.mark.parametrize(("change", "found"), [(-1, 15), (1, 17), (-16, 0)])
def test_a_bin_of_another_length_is_found_by_stat(tmp_path: Path, change: int, found: int) -> None:
    pair(tmp_path, "text", [3, 5])
    written(tmp_path / "text.bin", bytes(16 + change))
    result = foreign(tmp_path, root=tmp_path)
    assert [(p.kind, p.path, p.expected, p.found) for p in result.problems] == [
        ("size", "text.bin", 16, found)
    ]


def test_a_folder_of_pairs_below(tmp_path: Path) -> None:
    pair(tmp_path, "a", [1])
    pair(tmp_path / "en", "b", [2, 2], 4, 4)
    result = foreign(tmp_path)
    assert list(rows(result)) == ["a.bin", "a.idx", "en/b.bin", "en/b.idx"]
    assert result.manifest.header.tokens is None
    assert "tokens int32 and uint16" in notes(result)


def test_a_vocabulary_that_does_not_fit_the_type(tmp_path: Path) -> None:
    pair(tmp_path, "text", [3])
    assert problems(foreign(tmp_path, vocabulary=65_536)) == []
    result = foreign(tmp_path, vocabulary=128_256)
    assert problems(result) == [("contradiction", "text.idx")]
    assert "uint16 holds token ids up to 65535" in result.problems[0].text
    assert result.manifest.header.tokens == Tokens("uint16", 128_256)


def test_damage_names_the_file(tmp_path: Path) -> None:
    pair(tmp_path, "text", [3])
    with (tmp_path / "text.idx").open("r+b") as file:
        file.truncate(50)
    with pytest.raises(ManifestError, match=r"text\.idx: .*damaged or truncated"):
        foreign(tmp_path)


def test_an_index_under_another_name(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"must be called NAME\.idx"):
        foreign(written(tmp_path / "text.index", mmap_index([1])))


def test_a_linked_index_in_a_folder_is_refused(tmp_path: Path) -> None:
    pair(tmp_path / "real", "text", [3])
    pair(tmp_path / "folder", "other", [3])
    (tmp_path / "folder/text.idx").symlink_to(tmp_path / "real/text.idx")
    with pytest.raises(ManifestError, match="symbolic link"):
        foreign(tmp_path / "folder")
