"""S3 Inventory: CSV files named by a manifest.json, compared, unpacked within bounds."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.errors import ManifestError, SlurmIoError
from tests.staging.manifest.imports.reading import by_path, foreign, notes, rows, written

SCHEMA = "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag"
CSV = (
    '"data","c4/train+0%2B%C3%A9.tar","v2","true","false","1234","2026-05-04T16:48:31.000Z","9b-3"\n'
    '"data","c4/train+0%2B%C3%A9.tar","v1","false","false","99","2026-05-03T16:48:31.000Z","8b"\n'
    '"data","c4/gone.tar","v3","true","true","","2026-05-04T16:48:31.000Z",""\n'
    '"data","c4/","v4","true","false","0","2026-05-04T16:48:31.000Z","d4"\n'
)


def inventory(folder: Path, content: bytes, name: str = "573a.csv.gz", **changes: Any) -> Path:
    file = {
        "key": f"inv/data/daily/data/{name}",
        "size": len(content),
        "MD5checksum": hashlib.md5(content).hexdigest(),
        **changes.pop("file", {}),
    }
    written(folder / "data" / name, content)
    manifest = {
        "sourceBucket": "data",
        "destinationBucket": "arn:aws:s3:::inv",
        "version": "2016-11-30",
        "fileFormat": "CSV",
        "fileSchema": SCHEMA,
        "files": [file],
        **changes,
    }
    return written(folder / "manifest.json", manifest)


@pytest.mark.parametrize("packed", [True, False])
def test_an_inventory(tmp_path: Path, packed: bool) -> None:
    content = gzip.compress(CSV.encode()) if packed else CSV.encode()
    result = foreign(inventory(tmp_path, content), prefix="c4/")
    assert result.format == "s3_inventory"
    assert rows(result) == {"train 0+é.tar": (1234, None)}
    entry = by_path(result)["train 0+é.tar"]
    assert (entry.etag, entry.version_id) == ("9b-3", "v2")
    assert result.manifest.header.sources[1] == "s3://data/c4/"
    for note in ("1 old versions", "1 deleted objects", "1 folder markers"):
        assert note in notes(result)


def test_the_csv_may_lie_beside(tmp_path: Path) -> None:
    path = inventory(tmp_path, CSV.encode())
    (tmp_path / "data/573a.csv.gz").rename(tmp_path / "573a.csv.gz")
    assert len(rows(foreign(path))) == 1


@pytest.mark.parametrize(
    ("content", "changes", "reason"),
    [
        (CSV.encode(), {"fileFormat": "ORC"}, r"as 'ORC' is not read; configure CSV"),
        (CSV.encode(), {"fileSchema": "Bucket, Key"}, r"must name Key and Size"),
        (CSV.encode(), {"fileSchema": "Key, Key, Size"}, r"each once"),
        (CSV.encode(), {"fileSchema": "Key, Size"}, r"line 1: 8 values, fileSchema names 2"),
        (CSV.encode(), {"file": {"size": 5}}, r"manifest.json says 5; fetch it again"),
        (CSV.encode(), {"file": {"MD5checksum": "ab" * 16}}, r"its MD5 is not"),
        (CSV.encode(), {"file": {"key": "x/gone.csv.gz"}}, r"gone.csv.gz is not beside"),
        (CSV.encode(), {"file": {"key": "x/.."}}, r"names no file"),
        (CSV.encode(), {"file": {"key": "x/"}}, r"names no file"),
        (gzip.compress(CSV.encode())[:-9], {}, r"damaged gzip"),
        (b"\x1f\x8b" + b"\0" * 30, {}, r"damaged gzip"),
        (b'"data","a","v","true","false","1.5","",""\n', {}, r"size '1.5' is no number"),
        (b'"data","a","v","true","false","-1","",""\n', {}, r"size '-1' is no number"),
        (b'"data","a","v","true","false","","",""\n', {}, r"size '' is no number"),
        (b'"data","%2e%2e/a","v","true","false","1","",""\n', {}, r"holds '..'"),
        (b'"data","a%00","v","true","false","1","",""\n', {}, r"NUL"),
        (b'"data","a","v","true","false","1","",""x\n', {}, r"line 1: "),
        (b'"data","' + b"x" * 70_000, {}, r"over 64 KiB long"),
        (b'"data","a","v","true","false","1","","\n', {}, r"line 1: "),
        (b"", {}, r"names no files"),
    ],
)
def test_bad_inventories_name_place_and_fault(
    tmp_path: Path, content: bytes, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ManifestError, match=reason) as caught:
        foreign(inventory(tmp_path, content, **changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("line", [b"\0" * 65_000 + b"\n", b"\n"])
def test_a_bomb_stops_early(tmp_path: Path, line: bytes) -> None:
    bomb = gzip.compress(line * (64_000_000 // len(line)), 9)
    assert len(bomb) < 100_000
    with pytest.raises(ManifestError, match="unpacks to far more|values, fileSchema|line"):
        foreign(inventory(tmp_path, bomb))


def test_a_linked_csv_is_not_followed(tmp_path: Path) -> None:
    path = inventory(tmp_path, CSV.encode())
    (tmp_path / "data/573a.csv.gz").rename(tmp_path / "elsewhere")
    (tmp_path / "data/573a.csv.gz").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ManifestError, match="is not beside"):
        foreign(path)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=120), st.booleans())
def test_no_csv_crashes(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, packed: bool
) -> None:
    folder = tmp_path_factory.getbasetemp() / "inventory"
    try:
        foreign(inventory(folder, gzip.compress(content) if packed else content))
    except SlurmIoError as error:
        assert "\n" not in str(error)
