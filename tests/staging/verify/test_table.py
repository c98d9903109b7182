"""The record's table: what is written is read back, and any damage is noticed."""

import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.staging.manifest.model import FileEntry, Header
from slurm_io.staging.manifest.paths import decode_path
from slurm_io.staging.verify import expected, table
from slurm_io.staging.verify.expected import FromManifest
from slurm_io.staging.verify.grouping import group
from slurm_io.staging.verify.table import Row, Table, TableDamaged, TableForm
from slurm_io.staging.verify.table_writing import write_table

NAMES = st.binary(min_size=1, max_size=12).filter(
    lambda raw: b"\0" not in raw and b"/" not in raw and raw not in (b".", b"..")
)
PATHS = st.lists(st.lists(NAMES, min_size=1, max_size=4).map(b"/".join), max_size=30, unique=True)


def rows_for(source: FromManifest) -> list[Row]:
    rng = random.Random(1)
    return [
        Row(
            entry, (rng.randrange(1, 1 << 63), entry.size_bytes or 0, -5, 1 << 60), index % 5, index
        )
        for index, entry in enumerate(source.files)
    ]


def written(folder: Path, source: FromManifest, rows: list[Row]) -> tuple[Path, TableForm]:
    path = folder / "table"
    with path.open("wb") as out:
        form = write_table(
            out, "table", len(rows), lambda first, count: rows[first : first + count],
            source.segments(),
        )  # fmt: skip
    return path, form


def source_of(paths: list[bytes]) -> FromManifest:
    entries = [
        FileEntry(
            decode_path(path),
            index,
            f"xxh3-128:{index + 1:032x}",
            f"xxh3-128:{index + 7:032x}" if index % 3 else None,
            role=("data", "index", "metadata")[index % 3],  # type: ignore[arg-type]
        )
        for index, path in enumerate(sorted(paths))
    ]
    return FromManifest(Header("d", "c1-0", len(entries), 0), entries)


def without_files_that_are_folders(paths: list[bytes]) -> list[bytes]:
    return [p for p in paths if not any(o.startswith(p + b"/") for o in paths)]


@settings(max_examples=200)
@given(paths=PATHS)
def test_round_trip(paths: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    source = source_of(without_files_that_are_folders(paths))
    rows = rows_for(source)
    path, form = written(tmp_path_factory.mktemp("t"), source, rows)
    descriptor = os.open(path, os.O_RDONLY)
    opened = Table(descriptor, form)
    try:
        assert [row for _, row in opened.rows(range(len(rows)))] == rows
        assert [row for _, row in opened.rows(range(1, len(rows), 2))] == rows[1::2]
        for ours, theirs in zip(opened.segments(), source.segments(), strict=True):
            assert (ours.folder, ours.first, ours.names, ours.last) == (
                theirs.folder, theirs.first, theirs.names, theirs.last,
            )  # fmt: skip
            assert list(ours.sizes) == list(theirs.sizes)
            assert list(ours.subfolders) == list(theirs.subfolders)
        assert opened.indices_of_roles() == source.index_files()
    finally:
        opened.close()


def test_a_large_folder_is_cut_into_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expected, "SEGMENT_FILES", 10)
    source = source_of([b"a/%03d" % index for index in range(35)])
    rows = rows_for(source)
    path, form = written(tmp_path, source, rows)
    opened = Table(os.open(path, os.O_RDONLY), form)
    found = [(s.folder, s.first, len(s.names), s.last) for s in opened.segments()]
    opened.close()
    assert found == [
        (b"", 0, 0, True), (b"a", 0, 10, False), (b"a", 10, 10, False), (b"a", 20, 10, False),
        (b"a", 30, 5, True),
    ]  # fmt: skip


def test_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    source = source_of([b"a/b", b"c", b"d/e/f"])
    path, form = written(tmp_path, source, rows_for(source))
    good = path.read_bytes()
    for position in range(len(good)):
        path.write_bytes(good[:position] + bytes([good[position] ^ 0x10]) + good[position + 1 :])
        descriptor = os.open(path, os.O_RDONLY)
        try:
            with pytest.raises(TableDamaged):
                opened = Table(descriptor, form)
                list(opened.segments())
                list(opened.rows(range(3)))
        finally:
            os.close(descriptor)


@given(raw=st.binary(max_size=300))
def test_any_bytes_are_damage(raw: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("t") / "table"
    path.write_bytes(table.MAGIC + raw)
    form = TableForm("table", len(raw) + 8, 3)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with pytest.raises(TableDamaged):
            list(Table(descriptor, form).segments())
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("path", [b"", b"/a", b"a//b", b"../a", b"a/./b", b"a/..", b"a\0b"])
def test_a_path_that_leaves_the_folder_is_refused(path: bytes) -> None:
    with pytest.raises(ValueError, match="no path below"):
        group([path])
