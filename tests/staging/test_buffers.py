"""Buffers begin where O_DIRECT and fast copies want them to."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from slurm_io.staging.buffers import HUGE_PAGE_BYTES, aligned_buffer


@pytest.mark.parametrize("size", [1, 4096, 100_000, HUGE_PAGE_BYTES, 2 * HUGE_PAGE_BYTES + 1])
def test_a_buffer_has_its_size_and_begins_on_a_page(size: int) -> None:
    buffer = aligned_buffer(size)
    address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    assert len(buffer) == size
    assert address % (HUGE_PAGE_BYTES if size >= HUGE_PAGE_BYTES else 4096) == 0


def test_it_is_written_to_and_read_from(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * HUGE_PAGE_BYTES)
    buffer = aligned_buffer(HUGE_PAGE_BYTES)
    with (tmp_path / "f").open("rb") as file:
        assert os.preadv(file.fileno(), [buffer], 0) == HUGE_PAGE_BYTES
    assert bytes(buffer[:3]) == bytes(buffer[-3:]) == b"xxx"
