"""Sum files of every tool, those made on Windows, and hostile ones."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import xxhash
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.errors import ManifestError, SlurmIoError, UsageError
from tests.staging.manifest.imports.reading import (
    FIXTURES,
    MD5,
    SHA256,
    by_path,
    foreign,
    notes,
    problems,
    rows,
    written,
)

G02 = FIXTURES / "cases/G02"
DATA = b"four"


class TestCaseG02:
    expected = json.loads((G02 / "expected.json").read_text())["answer"]

    def test_crlf_names_are_found_and_corrupt_is_not_missing(self) -> None:
        result = foreign(G02 / "SHA256SUMS", root=G02 / "files", hashing=True)
        bad = {path: kind for kind, path in problems(result)}
        found = {path: bad.get(path, "ok") for path in by_path(result)}
        assert found == {row["name"]: row["result"] for row in self.expected["SHA256SUMS"]}
        assert ("missing", "Lite-2.4.0.zip") not in problems(result)  # must_not

    def test_utf16_with_a_lone_upper_case_digest(self) -> None:
        wanted = self.expected["Installer.exe.sha256"]
        result = foreign(G02 / "Installer.exe.sha256")
        assert rows(result) == {wanted["name"]: (None, f"sha256:{wanted['sha256']}")}
        assert wanted["encoding"] in notes(result)
        assert wanted["name_from"] in notes(result)

    def test_utf8_byte_order_mark(self) -> None:
        wanted = self.expected["utf8bom.sha256"]
        result = foreign(G02 / "utf8bom.sha256")
        assert rows(result) == {wanted["name"]: (None, f"sha256:{wanted['sha256']}")}


@pytest.mark.parametrize(
    ("line", "path", "digest"),
    [
        (f"{MD5}  a/b.tar", "a/b.tar", f"md5:{MD5}"),
        (f"{MD5} *a/b.tar", "a/b.tar", f"md5:{MD5}"),
        (f"{MD5} b.tar", "b.tar", f"md5:{MD5}"),  # md5 -r
        (f"{MD5}\tb.tar", "b.tar", f"md5:{MD5}"),
        (f"{MD5}   b.tar", " b.tar", f"md5:{MD5}"),  # a name may begin with a space
        (f"{MD5}  ./a/b.tar", "a/b.tar", f"md5:{MD5}"),
        (f"{MD5}  b ) = c", "b ) = c", f"md5:{MD5}"),
        (f"{MD5}  caf\udce9", "caf\udce9", f"md5:{MD5}"),
        (f"{MD5}  a\\nb", "a\\nb", f"md5:{MD5}"),
        (f"\\{MD5}  a\\nb\\\\c\\rd", "a\nb\\c\rd", f"md5:{MD5}"),
        (f"{MD5.upper()}  b", "b", f"md5:{MD5}"),
        (f"{'ab' * 20}  b", "b", f"sha1:{'ab' * 20}"),
        (f"{'ab' * 28}  b", "b", f"sha224:{'ab' * 28}"),
        (f"{SHA256}  b", "b", f"sha256:{SHA256}"),
        (f"{'ab' * 48}  b", "b", f"sha384:{'ab' * 48}"),
        (f"{'ab' * 64}  b", "b", f"sha512:{'ab' * 64}"),
        (f"{MD5[:16]}  b", "b", f"xxh64:{MD5[:16]}"),
        (f"XXH3_{MD5[:16]}  b", "b", f"xxh3-64:{MD5[:16]}"),
        (f"SHA256 (a (1) = b) = {SHA256}", "a (1) = b", f"sha256:{SHA256}"),
        (f"\\SHA256 (a\\nb) = {SHA256}", "a\nb", f"sha256:{SHA256}"),
        (f"SHA256(b)= {SHA256}", "b", f"sha256:{SHA256}"),
        (f"SHA2-256(b)= {SHA256}", "b", f"sha256:{SHA256}"),
        (f"BLAKE3 (b) = {SHA256}", "b", f"blake3:{SHA256}"),
        (f"XXH128 (b) = {MD5}", "b", f"xxh3-128:{MD5}"),
        (f"XXH3 (b) = {MD5[:16]}", "b", f"xxh3-64:{MD5[:16]}"),
        ("XXH32 (b) = 0123abcd", "b", "xxh32:0123abcd"),
        ("XXH64_LE (b) = efcdab8967452301", "b", f"xxh64:{MD5[:16]}"),
    ],
)
def test_one_line(tmp_path: Path, line: str, path: str, digest: str) -> None:
    result = foreign(written(tmp_path / "list.txt", f"# a comment\n\n{line}\n"))
    assert rows(result) == {path: (None, digest)}


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("MD5SUMS", f"md5:{MD5}"),
        ("files.xxh128", f"xxh3-128:{MD5}"),
        ("xxh128sums.txt", f"xxh3-128:{MD5}"),
        ("notes-about-web3.txt", f"md5:{MD5}"),
    ],
)
def test_the_name_of_the_file_decides_between_digests_of_one_length(
    tmp_path: Path, name: str, digest: str
) -> None:
    assert rows(foreign(written(tmp_path / name, f"{MD5}  a\n"))) == {"a": (None, digest)}


def test_b3_names_and_the_option_decide_too(tmp_path: Path) -> None:
    assert rows(foreign(written(tmp_path / "B3SUMS", f"{SHA256}  a\n"))) == {
        "a": (None, f"blake3:{SHA256}")
    }
    plain = written(tmp_path / "list", f"{SHA256}  a\n")
    assert rows(foreign(plain, algorithm="b3")) == {"a": (None, f"blake3:{SHA256}")}
    assert "taken for sha256 by their length" in notes(foreign(plain))
    with pytest.raises(UsageError, match="--algorithm"):
        foreign(plain, algorithm="rot13")


def test_several_digests_of_one_file_come_together(tmp_path: Path) -> None:
    text = f"MD5 (a) = {MD5}\nSHA256 (a) = {SHA256}\n"
    entry = by_path(foreign(written(tmp_path / "list", text)))["a"]
    assert (entry.digest, entry.digests) == (f"sha256:{SHA256}", (f"md5:{MD5}",))


def test_lone_digest_of_standard_input(tmp_path: Path) -> None:
    result = foreign(written(tmp_path / "x.bin.md5", f"{MD5}  -\n"))
    assert rows(result) == {"x.bin": (None, f"md5:{MD5}")}


def test_a_signed_list_is_read_and_said_not_to_be_checked(tmp_path: Path) -> None:
    text = (
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n"
        f"{SHA256}  a\n-----BEGIN PGP SIGNATURE-----\niQIz\n"
    )
    result = foreign(written(tmp_path / "SHA256SUMS.asc", text))
    assert list(rows(result)) == ["a"]
    assert "signature is not checked" in notes(result)


def test_a_last_line_without_an_end_is_whole(tmp_path: Path) -> None:
    for end in ("\n", "\r\n"):
        text = f"{MD5}  a{end}{MD5}  b"
        assert list(rows(foreign(written(tmp_path / "MD5SUMS", text)))) == ["a", "b"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_encodings_of_windows(tmp_path: Path, encoding: str) -> None:
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    content = f"{mark}{MD5}  é\r\n".encode(encoding)
    assert list(rows(foreign(written(tmp_path / "MD5SUMS", content)))) == ["é"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{MD5}  a\nrubbish\n", r"line 2: not a digest and a path"),
        (f"{MD5}  a\n{MD5}  b\n{MD5}  a\n", r"line 3: a stands twice \(first: list line 1\)"),
        (f"{MD5}  a\n{MD5}  ./a\n", r"stands twice"),
        (f"{MD5}  ../a\n", r"line 1: path '../a' holds '..'"),
        (f"{MD5}  /etc/passwd\n", r"is absolute"),
        (f"{MD5}  a\n{MD5}  a/b\n", r"'a/b' lies below another file"),
        (f"{MD5}  a\r\n{MD5}  b\n", r"line 2: some lines end in CR LF"),
        (f"{MD5}  a\n{MD5}  b\r\n", r"line 2: some lines end in CR LF"),
        (f"\\{MD5}  a\\tb\n", r"not a digest and a path"),
        (f"\\{MD5}  a\\\n", r"not a digest and a path"),
        (f"{MD5}\n", r"not named after a file"),
        (f"{MD5}  a\n{MD5}\n", r"line 2: a digest without a path"),
        ("0123abcd  a\n", r"8 hex digits could be several"),
        (f"{MD5}ab  a\n", r"34 hex digits"),
        (f"SHA512/256 (a) = {SHA256}\n", r"not a digest and a path"),
        (f"SHA1 (a) = {SHA256}\n", r"not the 40 hex digits of sha1"),
        (f"{MD5}  a\0b\n", r"NUL bytes"),
        (f"{MD5}  {'x' * 70000}\n", r"over 64 KiB long"),
        (f"{MD5}  {'x' * 300}\n", r"component of 300 bytes"),
        ("# nothing\n", r"names no files"),
    ],
)
def test_bad_lists_name_line_and_fault(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ManifestError, match=reason) as caught:
        foreign(written(tmp_path / "list", text), "sums")
    assert "\n" not in str(caught.value)


def test_a_digest_of_another_length_than_the_name_says(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="line 1.*not the 32 hex digits of md5"):
        foreign(written(tmp_path / "MD5SUMS", f"{SHA256}  a\n"))


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="needs coreutils")
@pytest.mark.parametrize("options", [[], ["--tag"], ["-b"]])
def test_real_tools_write_what_is_read(tmp_path: Path, options: list[str]) -> None:
    names = ["plain", "two words", "back\\slash", "new\nline", "-dash", "é", "a = b"]
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    for tool in ("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum"):
        sums = subprocess.run(
            [tool, *options, "--", *names], cwd=tmp_path, capture_output=True, check=True
        ).stdout
        listing = written(tmp_path.parent / "lists" / f"{tool}.txt", sums)
        result = foreign(listing, root=tmp_path, hashing=True)
        assert set(rows(result)) == set(names)
        assert result.problems == ()


@pytest.mark.parametrize(
    ("name", "digits"),
    [
        ("x.xxh128", xxhash.xxh3_128_hexdigest(DATA)),
        ("x.xxh64", xxhash.xxh64_hexdigest(DATA)),
        ("x.xxh3", "XXH3_" + xxhash.xxh3_64_hexdigest(DATA)),
        ("x.xxh32", xxhash.xxh32_hexdigest(DATA)),
        ("x.b3", blake3(DATA).hexdigest()),
        ("x.md5", hashlib.md5(DATA).hexdigest()),
    ],
)
def test_every_digest_is_compared_with_the_copy(tmp_path: Path, name: str, digits: str) -> None:
    listing = written(tmp_path / name, f"{digits}  a\n{digits}  b\n{digits}  c\n")
    for one, content in (("a", DATA), ("b", b"fouR")):
        written(tmp_path / "copy" / one, content)
    result = foreign(listing, root=tmp_path / "copy", hashing=True)
    assert problems(result) == [("corrupt", "b"), ("missing", "c")]
    good = by_path(result)["a"]
    assert good.size_bytes == 4
    assert good.digest == f"xxh3-128:{xxhash.xxh3_128_hexdigest(DATA)}"
    assert good.ends == good.digest  # a small file is its own two ends
    assert by_path(result)["b"].size_bytes is None  # a bad copy adds nothing


def test_a_copy_full_of_traps_is_told_and_never_followed(tmp_path: Path) -> None:
    outside = written(tmp_path / "outside/secret", DATA)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "link").symlink_to(outside)
    (copy / "through").symlink_to(outside.parent)
    os.mkfifo(copy / "pipe")
    (copy / "folder").mkdir()
    digits = hashlib.md5(DATA).hexdigest()
    names = ["link", "through/secret", "pipe", "folder"]
    listing = written(tmp_path / "MD5SUMS", "".join(f"{digits}  {name}\n" for name in names))
    for hashing in (False, True):
        result = foreign(listing, root=copy, hashing=hashing)
        assert problems(result) == [("unreadable", name) for name in sorted(names)]
        assert all(entry.size_bytes is None for entry in result.manifest.files)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_no_bytes_crash_the_parser(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz-sums"
    path.write_bytes(text)
    try:
        result = foreign(path, "sums")
    except SlurmIoError as error:
        assert "\n" not in str(error)
        assert str(error).isascii()
        return
    assert result.manifest.files


NAMES = st.binary(min_size=1, max_size=30).filter(
    lambda name: (
        b"\0" not in name
        and name.strip(b"/") == name
        and not {b"", b".", b".."} & set(name.split(b"/"))
        and name != b"-"
    )
)


@settings(max_examples=200, deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=5, unique=True), st.booleans(), st.booleans())
def test_any_name_written_as_coreutils_does_comes_back(
    tmp_path_factory: pytest.TempPathFactory, names: list[bytes], tag: bool, binary: bool
) -> None:
    text = b""
    for name in names:
        escaped = name.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
        mark = b"\\" if escaped != name else b""
        if tag:
            text += mark + b"MD5 (" + escaped + b") = " + MD5.encode() + b"\n"
        else:
            text += mark + MD5.encode() + (b" *" if binary else b"  ") + escaped + b"\n"
    path = tmp_path_factory.getbasetemp() / "MD5SUMS"
    path.write_bytes(text)
    below = {name for name in names for other in names if name.startswith(other + b"/")}
    if below:
        with pytest.raises(ManifestError, match="lies below another file"):
            foreign(path)
    else:
        assert {os.fsencode(found) for found in rows(foreign(path, "sums"))} == set(names)
