"""Digests of open files: whole, ends, chunks; and changes while reading."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest import hashing
from slurm_io.staging.manifest.hashing import (
    END_BYTES,
    FileDigest,
    FileHasher,
    HowToHash,
    digest_bytes,
    digest_file,
    end_ranges,
    ends_of,
)


def digest(path: Path, how: HowToHash | None = None) -> FileDigest:
    fd = os.open(path, os.O_RDONLY)
    try:
        return digest_file(fd, how)
    finally:
        os.close(fd)


@pytest.mark.parametrize("size", [0, 1, END_BYTES, 2 * END_BYTES, 2 * END_BYTES + 1, 3_000_001])
def test_whole_and_ends(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "f").write_bytes(data)
    found = digest(tmp_path / "f")
    ends = data if size <= 2 * END_BYTES else data[:END_BYTES] + data[-END_BYTES:]
    assert found.digest == f"xxh3-128:{xxhash.xxh3_128_hexdigest(data)}"
    assert found.ends == digest_bytes(ends)
    assert found.identity.size_bytes == size


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=60), chunk=st.integers(1, 20), block=st.integers(1, 30))
def test_chunks_do_not_depend_on_how_the_file_is_read(
    tmp_path: Path, data: bytes, chunk: int, block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing, "BLOCK_BYTES", max(block, chunk))
        patch.setattr(hashing, "TICK_NS", 0)
        (tmp_path / "f").write_bytes(data)
        found = digest(tmp_path / "f", HowToHash("md5", chunk_bytes=chunk))
    pieces = [data[at : at + chunk] for at in range(0, len(data), chunk)]
    expected = [hashlib.md5(piece).hexdigest() for piece in pieces] if len(pieces) > 1 else []
    assert list(found.chunks) == expected
    assert found.digest == f"md5:{hashlib.md5(data).hexdigest()}"


@pytest.mark.parametrize("size", [4 << 20, (20 << 20) + 1, 100_000_000])
@pytest.mark.parametrize("how", [HowToHash(), HowToHash(chunk_bytes=7_000_000, drop_cache=True)])
def test_reading_ahead_gives_the_same(tmp_path: Path, size: int, how: HowToHash) -> None:
    (tmp_path / "f").write_bytes(os.urandom(1 << 20) * (size >> 20) + b"x" * (size % (1 << 20)))
    told: list[int] = []
    with (tmp_path / "f").open("rb") as file:
        ahead = digest_file(file.fileno(), how, told.append, ahead=4)
    assert digest(tmp_path / "f", how) == ahead
    assert len(ahead.chunks) == (
        -(-size // 7_000_000) if how.chunk_bytes and size > 7_000_000 else 0
    )
    assert sum(told) == size


@pytest.mark.parametrize("fault", ["truncated", "caller"])
def test_reading_ahead_ends_in_order(tmp_path: Path, fault: str) -> None:
    (tmp_path / "f").write_bytes(bytes(40 << 20))
    before = threading.active_count()

    def interfere(_: int) -> None:
        if fault == "caller":
            raise KeyError
        os.truncate(tmp_path / "f", 1 << 20)

    with (tmp_path / "f").open("rb") as file, pytest.raises((ManifestError, KeyError)) as caught:
        digest_file(file.fileno(), HowToHash(chunk_bytes=1 << 20), interfere, ahead=3)
    assert caught.type is (KeyError if fault == "caller" else ManifestError)
    assert threading.active_count() == before


def test_one_hasher_makes_the_digests_of_many_files(tmp_path: Path) -> None:
    hasher = FileHasher(HowToHash(chunk_bytes=200_000))
    for size in (0, 5, 131_072, 131_073, 300_000, 3_000_000, 1):
        data = os.urandom(size)
        (tmp_path / "f").write_bytes(data)
        with (tmp_path / "f").open("rb") as file:
            found = hasher.digest(file.fileno())
        assert found == digest(tmp_path / "f", HowToHash(chunk_bytes=200_000))
        assert found.digest == digest_bytes(data)


def test_progress_is_told_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 2_500_000)
    told: list[int] = []
    with (tmp_path / "f").open("rb") as file:
        digest_file(file.fileno(), None, told.append)
    assert sum(told) == 2_500_000 and len(told) > 1


@pytest.mark.parametrize("change", ["grow", "shrink", "rewrite"])
def test_file_that_changes_while_it_is_read_has_no_digest(tmp_path: Path, change: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 3_000_000)

    def interfere(_: int) -> None:
        if change == "shrink":
            os.truncate(path, 1_500_000)
        else:
            with path.open("ab" if change == "grow" else "r+b") as file:
                file.write(b"y")

    with path.open("rb") as file, pytest.raises(ManifestError, match="changed while"):
        digest_file(file.fileno(), None, interfere)


def test_rewrite_right_after_the_last_write_shows(tmp_path: Path) -> None:
    # Same size, same timer tick: only waiting for the tick to pass makes the change visible.
    path = tmp_path / "f"
    for _ in range(20):
        path.write_bytes(b"x" * 100)
        with path.open("rb") as file, pytest.raises(ManifestError, match="changed while"):
            digest_file(file.fileno(), None, lambda _: path.write_bytes(b"y" * 100) and None)


def test_file_systems_of_whole_seconds_are_given_a_second() -> None:
    assert hashing._tick_ns(1_760_000_000_123_456_789) == hashing.TICK_NS
    assert hashing._tick_ns(1_760_000_000_000_000_000) > 1_000_000_000


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(ManifestError, match="regular file"):
            digest_file(fd)
    finally:
        os.close(fd)


def test_ends_of_a_truncated_file_differ(tmp_path: Path) -> None:
    data = os.urandom(500_000)
    (tmp_path / "f").write_bytes(data)
    with (tmp_path / "f").open("r+b") as file:
        whole = ends_of(file.fileno(), len(data))
        file.truncate(400_000)
        assert ends_of(file.fileno(), len(data)) != whole


def test_end_ranges() -> None:
    assert end_ranges(0) == [(0, 0)]
    assert end_ranges(131_072) == [(0, 131_072)]
    assert end_ranges(131_073) == [(0, 65_536), (65_537, 65_536)]
