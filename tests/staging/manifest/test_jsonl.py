"""JSON Lines manifests: exact round trips, and one clear line for each bad form."""

from __future__ import annotations

import io
import json
import os
import re
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.jsonl import (
    _checked_line,
    check_entry,
    entry_line,
    read_entries,
    read_header,
    read_manifest,
    write_jsonl,
)
from slurm_io.staging.manifest.model import FileEntry, Manifest
from slurm_io.staging.manifest.rows import entry_of, entry_row
from tests.staging.manifest.made import manifest, manifests, numbered

ON_DISK = settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
DIGEST = "xxh3-128:" + "0" * 32


def written(found: Manifest) -> bytes:
    file = io.BytesIO()
    write_jsonl(file, found.header, found.files)
    return file.getvalue()


def read(tmp_path: Path, data: bytes) -> Manifest:
    (tmp_path / "m").write_bytes(data)
    return read_manifest(str(tmp_path / "m"))


def lines_of(found: Manifest) -> list[Any]:
    return [json.loads(line) for line in written(found).splitlines()]


def joined(rows: list[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@ON_DISK
@given(manifests())
def test_what_is_written_is_read(tmp_path: Path, found: Manifest) -> None:
    try:
        data = written(found)
    except ManifestError as error:  # the only one that random names can meet
        assert "below another file" in str(error)
        return
    assert data.isascii()
    assert read(tmp_path, data) == found
    assert read_header(str(tmp_path / "m")) == found.header
    header, entries = read_entries(str(tmp_path / "m"))
    assert Manifest(header, list(entries)) == found


@given(st.text(), st.integers(), st.sampled_from([DIGEST, "md5:" + "0" * 32, "md5:0", None]))
def test_the_short_way_for_plain_files_says_the_same(
    path: str, size: int, digest: str | None
) -> None:
    row: dict[str, Any] = {"path": path, "size_bytes": size, "digest": digest, "ends": DIGEST}
    # An explicit default makes a row that is not plain.
    for kept in (row, {**row, "role": "data"}, {**row, "path": b"x"}, {**row, "size_bytes": True}):
        try:
            slowly = entry_of({**kept, "chunks": []})
        except ManifestError as error:
            with pytest.raises(ManifestError, match=re.escape(str(error))):
                entry_of(kept)
        else:
            assert entry_of(kept) == slowly
            assert json.loads(_checked_line(entry_row(slowly))) == {**entry_row(slowly)}
            assert _checked_line(entry_row(slowly)) == entry_line(slowly)


def test_form_is_the_documented_one() -> None:
    found = manifest([FileEntry("a\udcff", 3, DIGEST, role="index")], created_at="now")
    assert written(found).decode().splitlines() == [
        '{"format":"slurm_io manifest","schema":1,"dataset":"c4","content_id":"'
        + found.header.content_id
        + '","file_count":1,"total_bytes":3,"algorithm":"xxh3-128","created_at":"now"}',
        r'{"path":"a\udcff","size_bytes":3,"digest":"' + DIGEST + '","role":"index"}',
        '{"end":1,"content_id":"' + found.header.content_id + '"}',
    ]


def test_header_alone_does_not_read_the_rest(tmp_path: Path) -> None:
    header, *_ = written(numbered(2)).splitlines(keepends=True)
    (tmp_path / "m").write_bytes(header + b"\xff" * 100)
    assert read_header(str(tmp_path / "m")).file_count == 2


@ON_DISK
@given(cut=st.integers(0, 10_000))
def test_truncation_anywhere_shows(tmp_path: Path, cut: int) -> None:
    data = written(numbered(5))
    with pytest.raises(ManifestError, match="truncated|is empty"):
        read(tmp_path, data[: cut % len(data)])


@ON_DISK
@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_one_flipped_bit_is_found_or_outside_what_the_id_covers(
    tmp_path: Path, at: int, bit: int
) -> None:
    found = numbered(3)
    data = bytearray(written(found))
    data[at % len(data)] ^= 1 << bit
    try:
        other = read(tmp_path, bytes(data))
    except ManifestError as error:
        assert "\n" not in str(error)
    else:
        assert other.header.content_id == found.header.content_id
        names = [(e.path, e.size_bytes, e.digest) for e in other.files]
        assert names == [(e.path, e.size_bytes, e.digest) for e in found.files]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["..", "/x", DIGEST, "data"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["path", "size_bytes", "digest", "chunks", "end", "role", "requires"])
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@ON_DISK
@given(rows=st.lists(JSON, max_size=4), keep=st.integers(0, 4), raw=st.binary(max_size=20))
@example(rows=[], keep=0, raw=b"\x1f\x8b")
def test_hostile_lines_give_one_clear_error(
    tmp_path: Path, rows: list[Any], keep: int, raw: bytes
) -> None:
    good = lines_of(numbered(2))
    with pytest.raises(ManifestError) as caught:
        read(tmp_path, joined([*good[:keep], *rows]) + raw + b"\n")
    assert str(tmp_path) in str(caught.value)
    assert len(str(caught.value)) < 1000 and str(caught.value).isprintable()


@pytest.mark.long
@settings(
    max_examples=int(os.environ.get("SLURM_IO_FUZZ_EXAMPLES", "20000")),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_hostile_bytes_never_get_past_the_reader(tmp_path: Path, data: st.DataObject) -> None:
    whole = bytearray(written(numbered(3)))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(whole)))
        stop = start + data.draw(st.integers(0, 20))
        whole[start:stop] = data.draw(st.binary(max_size=20))
    try:
        found = read(tmp_path, bytes(whole))
    except ManifestError as error:
        assert str(error).isprintable()
    else:
        assert read(tmp_path, written(found)) == found


BAD_ENTRY: list[tuple[dict[str, Any], str]] = [
    ({"path": "../x"}, "'..'"),
    ({"path": "/x"}, "absolute"),
    ({"path": "x" * 10_000}, "10000 bytes"),
    ({"path": 5}, "must be text"),
    ({"path": None}, "must be text"),
    ({"size_bytes": -1}, "whole number"),
    ({"size_bytes": 1 << 63}, "beyond 63 bits"),
    ({"size_bytes": True}, "whole number"),
    ({"size_bytes": "7"}, "whole number"),
    ({"size_bytes": 1.0}, "whole number"),
    ({"digest": "xxh3-128:00"}, "32 hex digits"),
    ({"digest": "rot13:00"}, "ALGORITHM:HEX"),
    ({"digest": [DIGEST]}, "must be text"),
    ({"role": "boss"}, "one of data, index, metadata"),
    ({"role": []}, "one of data, index, metadata"),
    ({"chunks": ["0" * 32]}, "chunk_bytes"),
    ({"chunks": "0"}, "must be a list"),
    ({"digests": [DIGEST] * 33}, "at most 32"),
    ({"etag": "a\nb"}, "control character"),
    ({"etag": "\ud800"}, "UTF-8"),
    ({"mtime": 5}, "unknown key 'mtime'"),
]


@pytest.mark.parametrize(("change", "reason"), BAD_ENTRY)
def test_bad_entry_is_named_by_line(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    rows = lines_of(manifest([FileEntry("a", 1, DIGEST)]))
    rows[1] |= change
    with pytest.raises(ManifestError, match="line 2: ") as caught:
        read(tmp_path, joined(rows))
    assert reason in str(caught.value)


BAD_HEADER: list[tuple[dict[str, Any], str]] = [
    ({"format": "x"}, "is no manifest"),
    ({"schema": 2}, "schema 2: this slurm_io reads 1; update"),
    ({"schema": True}, "schema True"),
    ({"dataset": "x" * 257}, "at most 256"),
    ({"content_id": "c1-zz"}, "32 hex digits"),
    ({"file_count": -1}, "whole number"),
    ({"file_count": 10**9}, "whole number"),
    ({"total_bytes": 1 << 70}, "beyond 63 bits"),
    ({"total_bytes": 8}, "total_bytes 8, its files make 1"),
    ({"chunk_bytes": 0}, "whole number"),
    ({"algorithm": "rot13"}, "one of xxh3-128"),
    ({"tokens": {"dtype": "a b"}}, "NumPy dtype"),
    ({"tokens": {"dtype": "uint16", "vocabulary": 0}}, "whole number"),
    ({"layout": [{"stripe_count": "all"}]}, "whole number"),
    ({"requires": {"a": [[[[[[[[1]]]]]]]]}}, "nested deeper"),
    ({"requires": {"free_bytes": "1 TB"}}, "whole number"),
    ({"notes": ["x"] * 201}, "at most 200"),
    ({"signature": "ed25519:me:00"}, "ed25519:KEYID:SIGNATURE"),
    ({"owner": "me"}, "unknown key 'owner'"),
]


@pytest.mark.parametrize(("change", "reason"), BAD_HEADER)
def test_bad_header_is_named(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    rows = lines_of(manifest([FileEntry("a", 1, DIGEST)]))
    rows[0] |= change
    with pytest.raises(ManifestError, match="line [13]: ") as caught:
        read(tmp_path, joined(rows))
    assert reason in str(caught.value)


END = json.dumps({"end": 1, "content_id": manifest([FileEntry("a", 1)]).header.content_id}).encode()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"path":"a","path":"b"}', "key 'path' stands there twice"),
        (b'{"path":"a","size_bytes":NaN}', "not a whole number"),
        (b'{"path":"a","size_bytes":1e400}', "not a whole number"),
        (b'{"path":"a","size_bytes":' + b"9" * 5000 + b"}", "too many digits"),
        (b'{"path":"a","size_bytes":' + b"9" * 4000 + b"}", "beyond 63 bits"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"path":' * 100_000, "nested too deeply"),
        (b"[1]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"", "not JSON"),
        (b'{"path":"\xff"}', "not UTF-8"),
        (b'{"path":"\xed\xb3\xbf"}', "not UTF-8"),
        (b'{"path":"' + b"x" * (1 << 20) + b'"}', "longer than 1048576 bytes"),
        (END + b"\n{}", "end line does not fit"),
        (b'{"path":"b"}\n{"path":"a"}', "ascending"),
        (b'{"path":"a"}\n{"path":"a"}', "twice"),
    ],
)
def test_bad_line_is_named(tmp_path: Path, line: bytes, reason: str) -> None:
    rows = joined([lines_of(numbered(9))[0]])
    with pytest.raises(ManifestError, match="line [23]: ") as caught:
        read(tmp_path, rows + line + b"\n")
    assert reason in str(caught.value)


def test_line_of_very_many_keys_is_refused_at_once(tmp_path: Path) -> None:
    keys = ",".join(f'"{n:x}":1' for n in range(90_000)) + ',"15f8f":1'
    rows = joined([lines_of(numbered(9))[0]])
    with pytest.raises(ManifestError, match="key '15f8f' stands there twice"):
        read(tmp_path, rows + b"{" + keys.encode() + b"}\n")


def test_unchecked_reading_keeps_to_the_form_only(tmp_path: Path) -> None:
    header, first, _, third, end = written(numbered(3)).splitlines(keepends=True)
    (tmp_path / "m").write_bytes(header + first + third + end)
    assert len(read_manifest(str(tmp_path / "m"), check_id=False).files) == 2
    for bad in (header + first + third, header + first + first + end, header + end + first):
        (tmp_path / "m").write_bytes(bad)
        with pytest.raises(ManifestError):
            read_manifest(str(tmp_path / "m"), check_id=False)


def test_something_behind_the_end(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="follows its end line"):
        read(tmp_path, written(numbered(2)) + b"x\n")


def test_more_files_than_the_header_says(tmp_path: Path) -> None:
    rows = lines_of(numbered(3))
    rows[0]["file_count"] = 2
    with pytest.raises(ManifestError, match="line 4: more than the header's 2 files"):
        read(tmp_path, joined(rows))


def test_altered_entry_shows_as_another_content_id(tmp_path: Path) -> None:
    rows = lines_of(numbered(3))
    rows[2]["digest"] = DIGEST
    with pytest.raises(ManifestError, match="an entry was altered"):
        read(tmp_path, joined(rows))
    assert read_manifest(str(tmp_path / "m"), check_id=False).files[1].digest == DIGEST


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"\x1f\x8b\x08", "gzip -d"),
        (b"\x28\xb5\x2f\xfd", "zstd -d"),
        (b"PK\x03\x04", "unzip"),
        (b"PAR1", "Parquet"),
        (b"\xef\xbb\xbf{}\n", "byte order mark"),
        ("{}\n".encode("utf-16"), "UTF-16"),
        (b"abc  a.tar\n", "not JSON"),
        (b"{}\n", "is no manifest"),
        (b"\0" * (2 << 20), "longer than"),
        (b"{", "truncated"),
    ],
)
def test_what_is_no_manifest_says_what_it_is(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(ManifestError, match=reason):
        read(tmp_path, data)


def test_pipe_in_a_manifest_s_place_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m")
    for path in (tmp_path / "m", tmp_path, tmp_path / "absent", Path("a\0b")):
        with pytest.raises(ManifestError, match="regular file|cannot be read"):
            read_manifest(str(path))


def test_reading_one_by_one_keeps_nothing(tmp_path: Path) -> None:
    # 1 MiB a line, 64 lines: a reader that kept them would show.
    files = [FileEntry(f"{n:03}/" + "/".join(["x" * 200] * 20), None) for n in range(2000)]
    (tmp_path / "m").write_bytes(written(manifest(files)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(1 for _ in read_entries(str(tmp_path / "m"))[1]) == 2000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096


def test_writer_refuses_what_no_reader_takes() -> None:
    good = numbered(2)
    bad_header = replace(good.header, requires={"share": 0.5})
    for bad in (
        Manifest(good.header, good.files[::-1]),
        Manifest(good.header, good.files[:1]),
        Manifest(bad_header, good.files),
        Manifest(good.header, [replace(good.files[0], role="boss"), good.files[1]]),  # type: ignore[arg-type]
        Manifest(replace(good.header, content_id="c1-" + "0" * 32), good.files),
    ):
        with pytest.raises(ManifestError):
            written(bad)


def test_single_entries_are_checked_as_a_reader_would() -> None:
    entry = FileEntry("a", 1, DIGEST)
    assert check_entry(entry) == entry
    with pytest.raises(ManifestError, match="absolute"):
        check_entry(replace(entry, path="/a"))
    with pytest.raises(ManifestError, match="hex digits"):
        check_entry(replace(entry, digest="md5:0"))
