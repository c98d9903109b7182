"""The name of a FUSE connection's folder, and its number."""

from __future__ import annotations

import pytest

from slurm_io.filesystems.fuse_connections import connection_number, parse_waiting


@pytest.mark.parametrize(
    ("major_minor", "number"),
    [("0:53", 53), ("8:1", 8 << 20 | 1), ("0:1048575", 1048575), ("x:1", None), ("53", None)],
)
def test_folder_of_a_device(major_minor: str, number: int | None) -> None:
    assert connection_number(major_minor) == number


@pytest.mark.parametrize(
    ("content", "waiting"),
    [(b"0\n", 0), (b"17\n", 17), (b"", None), (b"-1\n", None), (b"4294967296\n", None)],
)
def test_waiting(content: bytes, waiting: int | None) -> None:
    # An empty answer is that of a connection which is gone.
    assert parse_waiting(content) == waiting
