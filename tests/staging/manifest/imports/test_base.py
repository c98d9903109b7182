"""What every importer keeps to, and how the right one is found."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import pytest

from slurm_io.errors import ManifestError, UsageError
from slurm_io.staging.manifest.foreign_source import Source
from slurm_io.staging.manifest.imports.base import IMPORTERS, importer_for
from tests.staging.manifest.imports.reading import FIXTURES, MD5, foreign, rows, written

NAMES = sorted(IMPORTERS.discover())
DOCS = Path(__file__).parents[4] / "docs/manifest-imports.md"
SAMPLES = {
    "cases/G02/SHA256SUMS": "sums",
    "cases/G02/Installer.exe.sha256": "sums",
    "cases/G04/index_ok.json": "safetensors_index",
    "imports/mosaicml": "mosaicml",
    "imports/mosaicml/index.json": "mosaicml",
    "imports/huggingface": "huggingface",
    "imports/huggingface/dataset_info.json": "huggingface",
    "imports/list-objects-v2.json": "s3_listing",
    "imports/aws-s3-ls.txt": "s3_listing",
}


@pytest.mark.parametrize("name", NAMES)
def test_every_importer_says_what_it_is(name: str) -> None:
    assert IMPORTERS.get(name).title.startswith(f"{name}: ")
    assert (importlib.import_module(f"slurm_io.staging.manifest.imports.{name}").__doc__ or "") > ""


@pytest.mark.skipif(not DOCS.exists(), reason="not run from a checkout")
@pytest.mark.parametrize("name", NAMES)
def test_every_importer_is_on_the_page(name: str) -> None:
    assert f"## {name}\n" in DOCS.read_text()


@pytest.mark.parametrize(("sample", "expected"), SAMPLES.items())
def test_each_sample_is_recognised_by_one_importer(sample: str, expected: str) -> None:
    with Source(str(FIXTURES / sample)) as source:
        found = [name for name in NAMES if IMPORTERS.get(name)().recognise(source)]
        assert found == [expected]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"{}", b"[]", b"[1]", b'"x"', b"hello\n"])
def test_nobody_recognises_what_is_nothing(tmp_path: Path, name: str, content: bytes) -> None:
    with Source(str(written(tmp_path / "x", content))) as source:
        assert not IMPORTERS.get(name)().recognise(source)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\0" * 100])
def test_forced_on_nonsense_each_says_so(tmp_path: Path, name: str, content: bytes) -> None:
    with pytest.raises((ManifestError, UsageError)):
        foreign(written(tmp_path / "x", content), name)
    with pytest.raises((ManifestError, UsageError)):
        foreign(tmp_path, name)


def test_an_ambiguous_source_asks_for_the_format(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "imports/mosaicml", tmp_path / "both")
    shutil.copy(FIXTURES / "imports/huggingface/state.json", tmp_path / "both")
    with pytest.raises(UsageError, match="could be huggingface or mosaicml: say which"):
        foreign(tmp_path / "both")
    assert len(rows(foreign(tmp_path / "both", "mosaicml"))) == 5


def test_nothing_known_lists_what_is(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="none of the formats bagit, datatrove"):
        foreign(written(tmp_path / "x", "hello\n"))
    with pytest.raises(UsageError, match="no format called 'parquet'; there are: bagit"):
        foreign(tmp_path / "x", "parquet")


def test_names_of_formats_take_dashes(tmp_path: Path) -> None:
    with Source(str(tmp_path)) as source:
        assert importer_for(source, "S3-Listing")[0] == "s3_listing"


@pytest.mark.parametrize("name", ["gone", "x\nfoo", "\udcff", "a" * 5000, "nul\0"])
def test_a_source_that_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(ManifestError) as caught:
        foreign(tmp_path / name)
    assert str(caught.value).isascii()
    assert "\n" not in str(caught.value)


def test_a_source_named_through_a_link_is_the_users_own_choice(tmp_path: Path) -> None:
    real = written(tmp_path / "real/MD5SUMS", f"{MD5}  a\n")
    (tmp_path / "link").symlink_to(real)
    assert list(rows(foreign(tmp_path / "link"))) == ["a"]


def test_hashing_needs_a_copy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--hash needs --root"):
        foreign(written(tmp_path / "MD5SUMS", f"{MD5}  a\n"), hashing=True)
    with pytest.raises(ManifestError, match="must be the folder"):
        foreign(tmp_path / "MD5SUMS", root=tmp_path / "MD5SUMS")


def test_prefix_must_fit_every_path(tmp_path: Path) -> None:
    path = written(tmp_path / "MD5SUMS", f"{MD5}  x/a\n{MD5}  y/b\n")
    with pytest.raises(ManifestError, match="line 2: y/b does not start with --prefix"):
        foreign(path, prefix="x/")
