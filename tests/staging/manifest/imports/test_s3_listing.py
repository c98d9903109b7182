"""Listings of S3: what is a file, what an ETag is not, and lists that are cut."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.errors import ManifestError, SlurmIoError
from tests.staging.manifest.imports.reading import (
    FIXTURES,
    SHA256,
    by_path,
    foreign,
    notes,
    rows,
    written,
)

B64 = base64.b64encode(bytes.fromhex(SHA256)).decode()


def row(key: str = "a", size: Any = 1, **more: Any) -> dict[str, Any]:
    return {"Key": key, "Size": size, "LastModified": "2026-05-04T16:48:31+00:00", **more}


def listing(tmp_path: Path, document: Any) -> Path:
    return written(tmp_path / "list.json", document)


def test_what_the_aws_command_prints() -> None:
    result = foreign(FIXTURES / "imports/list-objects-v2.json")
    assert result.format == "s3_listing"
    entry = by_path(result)["c4/train-00000.tar"]
    assert (entry.size_bytes, entry.etag, entry.digest) == (
        1073741824,
        "9b2cf535f27731c974343645a3985328-64",
        None,
    )
    text = notes(result)
    assert "1 folder markers left out" in text
    assert "1 objects in GLACIER or DEEP_ARCHIVE" in text
    assert "--prefix c4/" in text


def test_an_etag_is_never_an_md5(tmp_path: Path) -> None:
    etag = '"0123456789abcdef0123456789abcdef"'
    entry = by_path(foreign(listing(tmp_path, {"Contents": [row(ETag=etag)]})))["a"]
    assert (entry.etag, entry.digest, entry.digests) == (etag.strip('"'), None, ())


@pytest.mark.parametrize(
    ("fields", "digest"),
    [
        ({"ChecksumSHA256": B64, "ChecksumType": "FULL_OBJECT"}, f"sha256:{SHA256}"),
        ({"ChecksumCRC32": "AAECAw==", "ChecksumType": "FULL_OBJECT"}, "crc32:00010203"),
        (
            {"ChecksumCRC64NVME": "AAECAwQFBgc=", "ChecksumType": "FULL_OBJECT"},
            "crc64nvme:0001020304050607",
        ),
        ({"ChecksumSHA256": B64, "ChecksumType": "COMPOSITE"}, None),
        ({"ChecksumSHA256": B64 + "-3", "ChecksumType": "COMPOSITE"}, None),
        ({"ChecksumSHA256": B64 + "-3", "ChecksumType": "FULL_OBJECT"}, None),
        ({"ChecksumSHA256": B64}, None),
        ({"ChecksumAlgorithm": ["CRC64NVME"], "ChecksumType": "FULL_OBJECT"}, None),
    ],
)
def test_only_checksums_of_the_full_object_count(
    tmp_path: Path, fields: dict[str, Any], digest: str | None
) -> None:
    result = foreign(listing(tmp_path, {"Contents": [row(**fields)]}))
    assert rows(result) == {"a": (1, digest)}


def test_versions_and_deleted_objects(tmp_path: Path) -> None:
    document = {
        "Versions": [
            row("a", 1, VersionId="v2", IsLatest=True),
            row("a", 2, VersionId="v1", IsLatest=False),
            row("b", 3, VersionId="null", IsLatest=True),
        ],
        "DeleteMarkers": [{"Key": "c", "VersionId": "v9", "IsLatest": True}],
    }
    result = foreign(listing(tmp_path, document))
    assert {path: (e.size_bytes, e.version_id) for path, e in by_path(result).items()} == {
        "a": (1, "v2"),
        "b": (3, None),
    }
    assert "1 old versions left out" in notes(result)
    assert "1 deleted objects left out" in notes(result)


def test_prefix_encoding_and_pages(tmp_path: Path) -> None:
    pages = [
        {"Contents": [row("c4/a+b%2B%C3%A9")], "IsTruncated": True, "EncodingType": "url"},
        {"Contents": [row("c4/%41")], "IsTruncated": False, "Name": "bucket"},
    ]
    result = foreign(listing(tmp_path, pages), prefix="c4/")
    assert list(rows(result)) == ["%41", "a b+é"]
    assert result.manifest.header.sources[1] == "s3://bucket/c4/"


def test_text_of_aws_s3_ls() -> None:
    result = foreign(FIXTURES / "imports/aws-s3-ls.txt")
    assert rows(result) == {
        "c4/ leading space.tar": (12, None),
        "c4/train 0.tar": (1234, None),
        "c4/x.tar": (0, None),
    }


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"Contents": [row()], "IsTruncated": True}, r"is cut"),
        ({"Contents": [row()], "NextToken": "x"}, r"is cut"),
        ({"Contents": [row()], "CommonPrefixes": [{"Prefix": "b/"}]}, r"--delimiter"),
        ({"Contents": [row(), row()]}, r"Contents\[1\]: a stands twice"),
        ({"Contents": [row("a/", 5)]}, r"ends in / and has 5 bytes"),
        ({"Contents": [row("a"), row("a/b")]}, r"lies below another file"),
        ({"Contents": [row("../a")]}, r"holds '..'"),
        ({"Contents": [row("/a")]}, r"is absolute"),
        ({"Contents": [row("a//b")]}, r"empty or '.' component"),
        ({"Contents": [row("x" * 300)]}, r"component of 300 bytes"),
        ({"Contents": [row("a", -1)]}, r"Size: -1"),
        ({"Contents": [row("a", "1")]}, r"Size: must be a whole number, not text"),
        ({"Contents": [row("a", None)]}, r"lacks Size"),
        ({"Contents": [row("a", 2**63 - 1), row("b", 1)]}, r"pass 2\^63"),
        ({"Contents": [row(ETag="a\nb")]}, r"ETag"),
        ({"Contents": [row(ETag="x" * 2000)]}, r"ETag"),
        (
            {"Contents": [row(ChecksumSHA256="!!", ChecksumType="FULL_OBJECT")]},
            r"ChecksumSHA256: is not base64",
        ),
        (
            {"Contents": [row(ChecksumSHA256="AAAA", ChecksumType="FULL_OBJECT")]},
            r"ChecksumSHA256: digest '000000'",
        ),
        ({"Contents": []}, r"names no files"),
        ({"Contents": [row("x/", 0)]}, r"names no files"),
    ],
)
def test_bad_listings_name_place_and_fault(tmp_path: Path, document: Any, reason: str) -> None:
    with pytest.raises(ManifestError, match=reason) as caught:
        foreign(listing(tmp_path, document))
    assert "\n" not in str(caught.value)


ROW = "2026-05-04 16:48:31       1234 a.tar\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (ROW + "                           PRE c4/\n", r"line 2: shows a folder.*--recursive"),
        ("                           PRE c4/\n", r"line 1: shows a folder"),
        ("2026-05-04 16:48:31    1.2 KiB a.tar\n", r"rounded.*without --human-readable"),
        (ROW + "rubbish\n", r"line 2: must be DATE TIME SIZE KEY"),
        (ROW + ROW, r"line 2: a.tar stands twice"),
        (ROW + "\nTotal Objects: 2\n", r"the lines above make 1"),
        (ROW + "\nTotal Objects: 1\n   Total Size: 9\n", r"the lines above make 1234"),
        ("2026-05-04 16:48:31 9999999999999999999 a.tar\n", r"no number of bytes"),
    ],
)
def test_bad_text(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ManifestError, match=reason):
        foreign(written(tmp_path / "ls.txt", text))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_text_crashes(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "ls.txt"
    path.write_bytes(ROW.encode() + b"2026-05-04 16:48:31 1 " + text)
    try:
        foreign(path)
    except SlurmIoError as error:
        assert "\n" not in str(error)


def test_objects_outside_the_prefix_are_left_out_and_counted(tmp_path: Path) -> None:
    """A listing or an inventory is of a whole bucket as a rule, a dataset of a part of it."""
    page = {"Contents": [{"Key": "c4/a", "Size": 3}, {"Key": "laion/b", "Size": 4}]}
    result = foreign(listing(tmp_path, page), prefix="c4/")
    assert [entry.path for entry in result.manifest.files] == ["a"]
    assert "1 objects outside --prefix left out" in result.manifest.header.notes
