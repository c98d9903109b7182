"""Damage anywhere: whole batches before it come back, nothing torn does, nothing crashes."""

from __future__ import annotations

import random
import struct
import tracemalloc
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_io.errors import StoreError
from slurm_io.store.batch_template import END_OF_STREAM, TRAILER_MAGIC
from slurm_io.store.flatbuffer import FlatTable, vector_start
from slurm_io.store.recover import Recovered, recover_stream
from tests.store.rows import LOG, plain_row, random_row, write_stream

BATCHES = 3


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "log.arrows"
    rng = random.Random(2)
    write_stream(path, LOG, [[random_row(LOG, 10 * b + i, rng) for i in range(3)]
                             for b in range(BATCHES)])  # fmt: skip
    return path.read_bytes()


def recover(data: bytes, folder: Path) -> Recovered:
    path = folder / "log.arrows"
    path.write_bytes(data)
    return recover_stream(path)


def clocks(found: Recovered) -> list[list[int]]:
    return [batch["ts_ns"].to_pylist() for batch in found.batches]


EXPECTED = [[10 * b + i for i in range(3)] for b in range(BATCHES)]


def test_whole_file_has_no_damage(whole: bytes, tmp_path: Path) -> None:
    found = recover(whole, tmp_path)
    assert (clocks(found), found.damage, found.ended) == (EXPECTED, None, True)


def test_missing_end_mark_is_no_damage(whole: bytes, tmp_path: Path) -> None:
    found = recover(whole.removesuffix(END_OF_STREAM), tmp_path)
    assert (clocks(found), found.damage, found.ended) == (EXPECTED, None, False)


def test_cut_at_every_byte(whole: bytes, tmp_path: Path) -> None:
    """Damage is stated unless the cut falls between two messages, and its figures add up."""
    quiet_cuts = []
    for cut in range(len(whole)):
        found = recover(whole[:cut], tmp_path)
        assert clocks(found) == EXPECTED[: len(found.batches)]
        if found.damage is None:
            quiet_cuts.append(cut)
        else:
            assert found.damage.offset_bytes + found.damage.lost_bytes == cut
            assert found.damage.lost_bytes > 0
    assert len(quiet_cuts) == 1 + 1 + BATCHES  # empty, after the schema, after each batch


def test_every_flipped_bit_is_noticed(whole: bytes, tmp_path: Path) -> None:
    for position in range(len(whole)):
        torn = bytearray(whole)
        torn[position] ^= 1 << (position % 8)
        found = recover(bytes(torn), tmp_path)
        assert found.damage is not None, f"byte {position}"
        assert clocks(found) == EXPECTED[: len(found.batches)]


def test_garbage_after_the_end(whole: bytes, tmp_path: Path) -> None:
    found = recover(whole + b"more", tmp_path)
    assert clocks(found) == EXPECTED
    assert found.damage is not None
    assert (found.damage.offset_bytes, found.damage.lost_bytes) == (len(whole), 4)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_corruption_yields_a_prefix(whole: bytes, tmp_path: Path, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(whole)))
    removed = data.draw(st.integers(0, 64))
    patch = data.draw(st.binary(max_size=64))
    torn = whole[:start] + patch + whole[start + removed :]
    found = recover(torn, tmp_path)
    assert clocks(found) == EXPECTED[: len(found.batches)]
    assert found.damage is not None or torn in (whole, whole[:start])


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_garbage_is_no_stream(tmp_path: Path, data: bytes) -> None:
    found = recover(data, tmp_path)
    assert found.batches == []
    assert found.damage is not None or data in (b"", END_OF_STREAM)


@pytest.mark.parametrize("length", [2**31 - 8, 2**20 + 8, -8, 0, 7])
def test_claimed_metadata_sizes_allocate_nothing(length: int, tmp_path: Path) -> None:
    tracemalloc.start()
    found = recover(b"\xff\xff\xff\xff" + struct.pack("<i", length) + bytes(64), tmp_path)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.batches == []
    assert found.damage is not None or length == 0
    assert peak_bytes < 1_000_000


def forged(whole: bytes, change: tuple[int, int] | None) -> bytes:
    """The stream's first batch, one i64 of its metadata replaced, the checksum made right."""
    schema_end = 8 + struct.unpack_from("<i", whole, 4)[0]
    batch_end = schema_end + 8 + struct.unpack_from("<i", whole, schema_end + 4)[0]
    metadata = bytearray(whole[schema_end:batch_end])
    body_length = FlatTable.root(metadata, 8).int64(3)
    body = whole[batch_end : batch_end + body_length - 8]
    if change is not None:
        struct.pack_into("<q", metadata, *change)
    crc = zlib.crc32(body, zlib.crc32(metadata, zlib.crc32(whole[:schema_end])))
    return whole[:schema_end] + metadata + body + TRAILER_MAGIC + crc.to_bytes(4, "little")


def test_forging_helper_forges(whole: bytes, tmp_path: Path) -> None:
    assert clocks(recover(forged(whole, None), tmp_path)) == EXPECTED[:1]


def test_forged_numbers_with_a_right_checksum_never_crash(whole: bytes, tmp_path: Path) -> None:
    schema_end = 8 + struct.unpack_from("<i", whole, 4)[0]
    metadata_bytes = 8 + struct.unpack_from("<i", whole, schema_end + 4)[0]
    for at in range(8, metadata_bytes - 8, 8):
        for value in (-1, 2**62, 2**40, 1 << 20, 1):
            found = recover(forged(whole, (at, value)), tmp_path)
            for batch in found.batches:
                batch.validate(full=True)
                assert batch.num_rows <= len(whole)


def test_foreign_stream_without_checksums_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "log.arrows"
    batch = pa.record_batch({"ts_ns": [1, 2]})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    found = recover_stream(path)
    assert found.batches == []
    assert found.damage is not None


def test_not_a_regular_file(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.arrows")
    (tmp_path / "link.arrows").symlink_to("/etc/passwd")
    (tmp_path / "folder.arrows").mkdir()
    for path in tmp_path.iterdir():
        with pytest.raises(StoreError, match=path.name):
            recover_stream(path)


def test_too_large_a_file_is_refused_by_size_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.arrows"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(StoreError, match="bytes"):
        recover_stream(path)


def test_a_file_of_zeros_is_damage(tmp_path: Path) -> None:
    found = recover(bytes(4096), tmp_path)
    assert found.damage is not None
    assert found.damage.lost_bytes == 4096


def test_one_row_stream(tmp_path: Path) -> None:
    path = tmp_path / "log.arrows"
    write_stream(path, LOG, [[plain_row(LOG, 1)]])
    assert clocks(recover_stream(path)) == [[1]]


def test_rows_without_bytes_are_not_believed(tmp_path: Path) -> None:
    """Columns of type null need no data: a forged batch could claim any number of rows."""
    schema = pa.schema([("a", pa.null())]).serialize().to_pybytes()
    batch = bytearray(pa.record_batch({"a": [1]}).serialize().to_pybytes())
    metadata_bytes = 8 + struct.unpack_from("<i", batch, 4)[0]
    header = FlatTable.root(batch, 8).table(2)
    struct.pack_into("<q", batch, header.place(0), 2**40)
    struct.pack_into("<qq", batch, vector_start(header, 1)[0], 2**40, 2**40)
    body = bytes(len(batch) - metadata_bytes - 8)
    crc = zlib.crc32(batch[:metadata_bytes] + body, zlib.crc32(schema))
    trailer = TRAILER_MAGIC + crc.to_bytes(4, "little")
    found = recover(schema + bytes(batch[:metadata_bytes]) + body + trailer, tmp_path)
    assert found.batches == []
    assert found.damage is not None
    assert "more rows than bytes" in found.damage.reason
