"""Reads past the page cache give the same bytes wherever they begin, and say where these were."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_io.staging.beneath import Folder
from slurm_io.staging.verify.reading import (
    ALIGN_BYTES,
    Reader,
    is_direct,
    open_direct,
    read_ahead,
    read_in_turn,
    set_direct,
)

DATA = os.urandom(100_003)


@contextmanager
def opened(tmp_path: Path, direct: bool) -> Iterator[int]:
    (tmp_path / "f").write_bytes(DATA)
    with Folder.at(str(tmp_path)) as folder:
        fd, found = open_direct(folder.fd, b"f")
    assert found.st_size == len(DATA)
    set_direct(fd, direct)
    try:
        yield fd
    finally:
        os.close(fd)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.integers(0, len(DATA)),
    length=st.integers(0, len(DATA)),
    block=st.sampled_from([1, 4096, 8192, 70_000, 1 << 20]),
    direct=st.booleans(),
)
def test_blocks_in_turn_are_the_bytes_of_the_range(
    tmp_path: Path, start: int, length: int, block: int, direct: bool
) -> None:
    with opened(tmp_path, direct) as fd, closing(Reader(block)) as reader:
        found = b"".join(bytes(each) for each in read_in_turn(reader, fd, start, length))
        assert found == DATA[start : start + length]
        assert reader.bytes_read == len(found)


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("readers", [2, 5])
@pytest.mark.parametrize("start", [0, 3 * ALIGN_BYTES])
def test_reading_ahead_gives_the_same_blocks(
    tmp_path: Path, direct: bool, readers: int, start: int
) -> None:
    with opened(tmp_path, direct) as fd:
        many = [Reader(ALIGN_BYTES) for _ in range(readers)]
        for length in (0, 1, ALIGN_BYTES, len(DATA) - start, 10 * len(DATA)):
            blocks = [bytes(each) for each in read_ahead(many, fd, start, length)]
            assert b"".join(blocks) == DATA[start : start + length]
            assert all(len(block) == ALIGN_BYTES for block in blocks[:-1])
        with closing(read_ahead(many, fd, 0, len(DATA))) as left_early:
            next(left_early)


def test_a_read_error_comes_out_of_reading_ahead(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(IsADirectoryError):
            list(read_ahead([Reader(4096), Reader(4096)], fd, 0, 10_000))
    finally:
        os.close(fd)


def test_bytes_from_memory_are_counted_without_o_direct_only(tmp_path: Path) -> None:
    for direct in (False, True):
        with opened(tmp_path, direct) as fd, closing(Reader(1 << 20)) as reader:
            if direct and not is_direct(fd):
                continue
            reader.read(fd, 0, len(DATA))
            # What was just written is in memory, where the file system can tell.
            assert reader.bytes_from_cache in ((0,) if direct else (0, len(DATA)))
