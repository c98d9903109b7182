"""Parquet manifests: exact round trips, the same checks as JSON Lines, no small bombs."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest import parquet, parquet_footer
from slurm_io.staging.manifest.model import FileEntry, Manifest
from slurm_io.staging.manifest.parquet import SCHEMA, read_manifest, write_parquet
from slurm_io.staging.manifest.parquet_footer import HEADER_KEY, read_header
from slurm_io.staging.manifest.rows import header_row
from tests.staging.manifest.made import manifest, manifests, numbered

ON_DISK = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def written(found: Manifest) -> bytes:
    file = io.BytesIO()
    write_parquet(file, found.header, found.files)
    return file.getvalue()


def crafted(tmp_path: Path, rows: list[dict[str, Any]], header: Any, **how: Any) -> str:
    schema = SCHEMA.with_metadata({HEADER_KEY: json.dumps(header).encode()})
    table = pa.Table.from_pylist(rows, schema)
    pq.write_table(table, tmp_path / "m", **{"use_dictionary": False, **how})
    return str(tmp_path / "m")


@ON_DISK
@given(manifests())
def test_what_is_written_is_read(tmp_path: Path, found: Manifest) -> None:
    try:
        (tmp_path / "m").write_bytes(written(found))
    except ManifestError as error:
        assert "below another file" in str(error)
        return
    assert read_manifest(str(tmp_path / "m")) == found
    assert read_header(str(tmp_path / "m")) == found.header


def test_many_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 7)
    monkeypatch.setattr(parquet, "BATCH_ROWS", 5)
    (tmp_path / "m").write_bytes(written(numbered(50)))
    assert pq.read_metadata(tmp_path / "m").num_row_groups == 8
    assert read_manifest(str(tmp_path / "m")) == numbered(50)


@ON_DISK
@given(cut=st.integers(1, 100_000))
def test_truncation_shows(tmp_path: Path, cut: int) -> None:
    data = written(numbered(3))
    (tmp_path / "m").write_bytes(data[: -(cut % len(data) or 1)])
    for read in (read_manifest, read_header):
        with pytest.raises(ManifestError, match="truncated|damaged|no manifest"):
            read(str(tmp_path / "m"))


@ON_DISK
@given(data=st.data())
def test_damaged_footer_is_an_error_or_the_same_header(tmp_path: Path, data: st.DataObject) -> None:
    whole = bytearray(written(numbered(1)))
    length = int.from_bytes(whole[-8:-4], "little")
    at = len(whole) - 8 - data.draw(st.integers(1, length))
    whole[at] = data.draw(st.integers(0, 255))
    (tmp_path / "m").write_bytes(whole)
    try:
        read_header(str(tmp_path / "m"))
    except ManifestError as error:
        assert str(error).isprintable()


@ON_DISK
@given(footer=st.binary(max_size=60))
def test_any_footer_at_all(tmp_path: Path, footer: bytes) -> None:
    whole = b"PAR1PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    (tmp_path / "m").write_bytes(whole)
    for read in (read_manifest, read_header):
        with pytest.raises(ManifestError):
            read(str(tmp_path / "m"))


def test_endlessly_nested_footer(tmp_path: Path) -> None:
    footer = b"\x1c" * 100_000
    (tmp_path / "m").write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ManifestError, match="nested too deeply"):
        read_header(str(tmp_path / "m"))


def test_plain_parquet_file_is_no_manifest(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "m")
    for read in (read_manifest, read_header):
        with pytest.raises(ManifestError, match="no manifest of slurm_io"):
            read(str(tmp_path / "m"))


def test_other_columns_are_refused(tmp_path: Path) -> None:
    header = json.dumps(header_row(numbered(1).header)).encode()
    table = pa.table({"path": ["a"]}).replace_schema_metadata({HEADER_KEY: header})
    pq.write_table(table, tmp_path / "m")
    with pytest.raises(ManifestError, match="columns"):
        read_manifest(str(tmp_path / "m"))


def test_dictionary_bomb_is_refused_unread(tmp_path: Path) -> None:
    # 100,000 rows that all point at one value of 100 kB: 10 GB from a file of some kB.
    rows = [{"path": b"%06d" % n, "etag": "x" * 100_000} for n in range(200)]
    header = header_row(manifest([FileEntry(f"{n:06}", None) for n in range(200)]).header)
    path = crafted(tmp_path, rows, header, use_dictionary=True)
    assert (tmp_path / "m").stat().st_size < 500_000
    with pytest.raises(ManifestError, match="only plain columns"):
        read_manifest(path)


def test_delta_coded_paths_are_refused(tmp_path: Path) -> None:
    rows = [{"path": b"x" * 200 + b"%06d" % n} for n in range(3)]
    header = header_row(manifest([FileEntry(r["path"].decode(), None) for r in rows]).header)
    path = crafted(tmp_path, rows, header, column_encoding={"path": "DELTA_BYTE_ARRAY"})
    with pytest.raises(ManifestError, match="only plain columns"):
        read_manifest(path)


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    columns = pa.Table.from_pylist([{"path": b"a"}], SCHEMA)
    raw = pa.array([b"\xff\xff"], pa.binary())
    text = pa.StringArray.from_buffers(1, raw.buffers()[1], raw.buffers()[2])
    header = json.dumps(header_row(manifest([FileEntry("a", None)]).header)).encode()
    table = columns.set_column(5, SCHEMA.field("etag"), text)
    table = table.replace_schema_metadata({HEADER_KEY: header})
    pq.write_table(table, tmp_path / "m", use_dictionary=False)
    with pytest.raises(ManifestError, match="damaged"):
        read_manifest(str(tmp_path / "m"))


def test_unchecked_reading_keeps_to_the_form_only(tmp_path: Path) -> None:
    header = header_row(manifest([FileEntry("a", 1)]).header)
    path = crafted(tmp_path, [{"path": b"a"}, {"path": b"b"}], header)
    assert len(read_manifest(path, check_id=False).files) == 2


def test_huge_row_group_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "MAX_GROUP_BYTES", 1000)
    (tmp_path / "m").write_bytes(written(numbered(50)))
    with pytest.raises(ManifestError, match="a row group of"):
        read_manifest(str(tmp_path / "m"))


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{"path": b"../x", "size_bytes": 1}], "row 1: path '../x' holds"),
        ([{"path": b"a", "size_bytes": -1}], "row 1: size_bytes"),
        ([{"path": b"a", "size_bytes": 1, "role": "boss"}], "row 1: role"),
        ([{"path": b"a", "size_bytes": 1, "chunks": ["00", None]}], "row 1: chunks"),
        ([{"path": b"a", "size_bytes": 1}] * 2, "file_count 1, it has 2"),
        ([{"path": b"b", "size_bytes": 1}], "an entry was altered"),
        ([{"path": b"a", "size_bytes": 2}], "total_bytes 1, its files make 2"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, rows: list[dict[str, Any]], reason: str) -> None:
    header = header_row(manifest([FileEntry("a", 1)]).header)
    with pytest.raises(ManifestError, match=reason):
        read_manifest(crafted(tmp_path, rows, header))


def test_header_is_checked_as_in_json_lines(tmp_path: Path) -> None:
    header = header_row(numbered(1).header) | {"schema": 7}
    for read in (read_manifest, read_header):
        with pytest.raises(ManifestError, match="schema 7"):
            read(crafted(tmp_path, [], header))


def test_writer_refuses_what_no_reader_takes() -> None:
    good = numbered(2)
    for bad in (
        Manifest(good.header, good.files[:1]),
        Manifest(replace(good.header, content_id="c1-" + "0" * 32), good.files),
        Manifest(replace(good.header, requires={"share": 0.5}), good.files),
    ):
        with pytest.raises(ManifestError):
            written(bad)


def test_footer_limit_is_above_any_real_footer() -> None:
    assert parquet_footer.MAX_FOOTER_BYTES >= 64 << 20
