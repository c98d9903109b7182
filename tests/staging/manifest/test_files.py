"""Manifests on disk: both forms told apart, and replaced in one step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest import files
from slurm_io.staging.manifest.model import Manifest
from tests.staging.manifest.made import numbered


@pytest.mark.parametrize(
    ("name", "count", "form"),
    [("m", 3, "jsonl"), ("m", 6, "parquet"), ("m.jsonl", 6, "jsonl"), ("m.parquet", 3, "parquet")],
)
def test_form_by_suffix_then_by_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, count: int, form: str
) -> None:
    monkeypatch.setattr(files, "PARQUET_ABOVE_FILES", 5)
    path, found = str(tmp_path / name), numbered(count)
    assert files.write_manifest(path, found) == form
    assert files.form_of(path) == form
    assert files.open_manifest(path) == found
    assert files.read_header(path) == found.header


def test_renamed_file_is_read_by_its_bytes(tmp_path: Path) -> None:
    found = numbered(3)
    files.write_manifest(str(tmp_path / "m.parquet"), found)
    (tmp_path / "m.parquet").rename(tmp_path / "m.jsonl")
    assert files.open_manifest(str(tmp_path / "m.jsonl")) == found


def test_light_reader_refuses_parquet_but_gives_its_header(tmp_path: Path) -> None:
    path, found = str(tmp_path / "m.parquet"), numbered(3)
    files.write_manifest(path, found)
    with pytest.raises(ManifestError, match="by hand"):
        files.open_manifest(path, light=True)
    code = (
        "import sys; from slurm_io.staging.manifest import files; "
        f"print(files.read_header({path!r}).file_count); "
        "heavy = {'pyarrow', 'click', 'rich', 'blake3', 'cryptography', 'xxhash'};"
        "print(heavy & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "set()"]


def test_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path, found = str(tmp_path / "m"), numbered(3)
    files.write_manifest(path, found)
    before = (tmp_path / "m").read_bytes()
    for form in ("jsonl", "parquet"):
        with pytest.raises(ManifestError):
            files.write_manifest(path, Manifest(found.header, found.files[:2]), form)  # type: ignore[arg-type]
    assert (tmp_path / "m").read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["m"]


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="cannot be written"):
        files.write_manifest(str(tmp_path / "absent" / "m"), numbered(1))
    (tmp_path / "m").mkdir()
    with pytest.raises(ManifestError, match="cannot be written"):
        files.write_manifest(str(tmp_path / "m"), numbered(1))
    assert [each.name for each in tmp_path.iterdir()] == ["m"]


def test_link_in_a_manifest_s_place_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "m").symlink_to("victim")
    files.write_manifest(str(tmp_path / "m"), numbered(1))
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (tmp_path / "m").is_symlink()
