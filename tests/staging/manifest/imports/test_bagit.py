"""BagIt bags: manifests, tag files, Payload-Oxum, fetch list, encoded paths."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.errors import ManifestError, SlurmIoError
from tests.staging.manifest.imports.reading import (
    MD5,
    by_path,
    foreign,
    notes,
    problems,
    rows,
    written,
)

DECLARATION = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"


def bag(folder: Path, *payload: tuple[str, bytes], info: str | None = None) -> Path:
    """A whole bag with md5 and sha256 manifests and a tag manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in payload:
        written(folder / path, content)
    for name in ("md5", "sha256"):
        lines = [f"{hashlib.new(name, content).hexdigest()}  {path}\n" for path, content in payload]
        written(folder / f"manifest-{name}.txt", "".join(lines))
    total = sum(len(content) for _, content in payload)
    written(folder / "bagit.txt", DECLARATION)
    oxum = f"Payload-Oxum: {total}.{len(payload)}\n" if info is None else info
    written(folder / "bag-info.txt", "Source-Organization: us\n" + oxum)
    tags = ["bagit.txt", "bag-info.txt", "manifest-md5.txt", "manifest-sha256.txt"]
    lines = [f"{hashlib.md5((folder / t).read_bytes()).hexdigest()}  {t}\n" for t in tags]
    written(folder / "tagmanifest-md5.txt", "".join(lines))
    return folder


PAYLOAD = (("data/a.tar", b"four"), ("data/sub/b.tar", b"fifth"))


def test_a_whole_bag(tmp_path: Path) -> None:
    folder = bag(tmp_path / "bag", *PAYLOAD)
    result = foreign(folder, root=folder, hashing=True)
    assert result.format == "bagit"
    assert result.problems == ()
    entry = by_path(result)["data/a.tar"]
    assert entry.size_bytes == 4
    assert {digest.partition(":")[0] for digest in entry.digests} == {"md5", "sha256"}
    assert set(rows(result)) == {
        *("data/a.tar", "data/sub/b.tar", "bagit.txt", "bag-info.txt"),
        *("manifest-md5.txt", "manifest-sha256.txt", "tagmanifest-md5.txt"),
    }
    assert by_path(result)["bag-info.txt"].role == "metadata"


def test_the_payload_alone(tmp_path: Path) -> None:
    folder = bag(tmp_path / "bag", *PAYLOAD)
    result = foreign(folder / "bagit.txt", prefix="data/", root=folder / "data")
    assert rows(result).keys() == {"a.tar", "sub/b.tar"}
    assert result.problems == ()


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ("Payload-Oxum: 9.3\n", [("contradiction", "bag-info.txt")]),
        ("payload-oxum : 10.2\n", [("contradiction", "data/")]),
        ("Payload-Oxum: 9.2\r\n", []),
        ("", []),
    ],
)
def test_payload_oxum(tmp_path: Path, info: str, expected: list[tuple[str, str]]) -> None:
    folder = bag(tmp_path / "bag", *PAYLOAD, info=info)
    result = foreign(folder, root=folder)
    assert problems(result) == expected
    assert ("no Payload-Oxum" in notes(result)) == (info == "")


def test_without_a_copy_the_total_is_not_judged(tmp_path: Path) -> None:
    folder = bag(tmp_path / "bag", *PAYLOAD, info="Payload-Oxum: 10.2\n")
    assert problems(foreign(folder)) == []


def test_damage_of_payload_and_tags(tmp_path: Path) -> None:
    folder = bag(tmp_path / "bag", *PAYLOAD)
    written(folder / "data/a.tar", b"fouR")
    written(folder / "bag-info.txt", "Payload-Oxum: 9.2\n")
    (folder / "data/sub/b.tar").unlink()
    result = foreign(folder, root=folder, hashing=True)
    assert sorted(problems(result)) == [
        ("corrupt", "bag-info.txt"),
        ("corrupt", "data/a.tar"),
        ("missing", "data/sub/b.tar"),
    ]


def test_files_to_be_fetched(tmp_path: Path) -> None:
    folder = bag(tmp_path / "bag", *PAYLOAD)
    written(
        folder / "fetch.txt",
        "https://h/a.tar 4 data/a.tar\nhttps://h/b.tar\t-\tdata/sub/b.tar\n",
    )
    result = foreign(folder)
    assert rows(result)["data/a.tar"][0] == 4
    assert rows(result)["data/sub/b.tar"][0] is None
    assert "2 files are not in the bag until fetch.txt is carried out" in notes(result)


@pytest.mark.parametrize(
    ("version", "line", "path"),
    [
        ("1.0", "data/100%25%0A%0dx", "data/100%\n\rx"),
        ("1.0", "data/100%41 %", "data/100%41 %"),
        ("0.97", "data/100%25%0A", "data/100%25\n"),
        ("0.97", "*data/a b", "data/a b"),
        ("1.0", "./data/a", "data/a"),
    ],
)
def test_encoded_paths(tmp_path: Path, version: str, line: str, path: str) -> None:
    written(tmp_path / "bagit.txt", DECLARATION.replace("1.0", version))
    written(tmp_path / "manifest-md5.txt", f"{MD5} {line}\n")
    assert path in rows(foreign(tmp_path))


def test_tag_files_in_another_encoding(tmp_path: Path) -> None:
    written(tmp_path / "bagit.txt", DECLARATION.replace("UTF-8", "ISO-8859-1"))
    written(tmp_path / "manifest-md5.txt", f"{MD5}  data/é\n".encode("latin-1"))
    assert "data/é" in rows(foreign(tmp_path))


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("bagit.txt", "", r"bagit.txt line 1"),
        ("bagit.txt", "BagIt-Version: 1.0\n", r"bagit.txt line 2"),
        ("bagit.txt", DECLARATION.replace("UTF-8", "klingon"), r"encoding 'klingon' is unknown"),
        ("bagit.txt", DECLARATION.replace("UTF-8", "zlib"), r"not zlib"),
        ("manifest-md5.txt", f"{MD5}  data/a\n{MD5}  data/a\n", r"line 2: data/a stands twice"),
        ("manifest-md5.txt", f"{MD5}  etc/a\n", r"line 1: etc/a is not below data/"),
        ("manifest-md5.txt", f"{MD5}  data/../a\n", r"holds '..'"),
        ("manifest-md5.txt", f"{MD5}  data/%2e%2e/a\n{MD5[:-1]}  data/b\n", r"line 2: digest"),
        ("manifest-md5.txt", "nothing\n", r"line 1: must be a digest and a path"),
        ("fetch.txt", "x\n", r"fetch.txt line 1: must be ADDRESS LENGTH PATH"),
        ("fetch.txt", "http://h/a 4 data/none\n", r"data/none is in no manifest"),
        ("fetch.txt", "http://h/a -4 data/a.tar\n", r"must be ADDRESS LENGTH PATH"),
        ("bag-info.txt", "Payload-Oxum: many\n", r"must stand once, as BYTES.COUNT"),
        ("bag-info.txt", "Payload-Oxum: 9.2\nPayload-Oxum: 9.2\n", r"must stand once"),
    ],
)
def test_bad_bags_name_file_line_and_fault(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    folder = bag(tmp_path / "bag", *PAYLOAD)
    written(folder / name, text)
    with pytest.raises(ManifestError, match=reason) as caught:
        foreign(folder)
    assert "\n" not in str(caught.value)


def test_manifests_that_list_different_files(tmp_path: Path) -> None:
    folder = bag(tmp_path / "bag", *PAYLOAD)
    written(folder / "manifest-md5.txt", f"{hashlib.md5(b'four').hexdigest()}  data/a.tar\n")
    assert ("contradiction", "data/sub/b.tar") in problems(foreign(folder))


def test_a_folder_without_a_manifest_is_no_bag(tmp_path: Path) -> None:
    written(tmp_path / "bagit.txt", DECLARATION)
    with pytest.raises(ManifestError, match="without a manifest-ALGORITHM"):
        foreign(tmp_path)


@pytest.fixture(scope="module")
def whole_bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bag(tmp_path_factory.mktemp("fuzz"), *PAYLOAD)


@pytest.mark.parametrize("name", ["manifest-md5.txt", "fetch.txt", "bag-info.txt", "bagit.txt"])
@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=80), after=st.booleans())
def test_no_bytes_crash(whole_bag: Path, name: str, content: bytes, after: bool) -> None:
    path = whole_bag / name
    before = path.read_bytes() if path.exists() else None
    path.write_bytes((before or b"") * after + content)
    try:
        foreign(whole_bag)
    except SlurmIoError as error:
        assert "\n" not in str(error)
    finally:
        path.write_bytes(before) if before is not None else path.unlink()
