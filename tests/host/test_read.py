"""Bounded reads whose errors name the path."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_io.errors import HostError
from slurm_io.host import read


def test_text_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 200_000 + "é")
    assert read.read_text(tmp_path / "a") == "x" * 200_000 + "é"


def test_a_missing_file_names_the_path(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=f"{tmp_path}/none: No such file"):
        read.read_text(tmp_path / "none")


def test_the_limit_holds_and_names_the_path(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(101))
    assert len(read.read_bytes(tmp_path / "a", limit_bytes=101)) == 101
    with pytest.raises(HostError, match="more than 100 bytes"):
        read.read_bytes(tmp_path / "a", limit_bytes=100)


def test_an_endless_file_ends_at_the_limit() -> None:
    with pytest.raises(HostError, match="/dev/zero"):
        read.read_bytes("/dev/zero", limit_bytes=1000)


def test_bytes_that_are_no_text_survive(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff\xfe/x")
    assert read.read_text(tmp_path / "a").encode("utf-8", "surrogateescape") == b"\xff\xfe/x"


@pytest.mark.parametrize(
    ("content", "line", "number"),
    [("12\n", "12", 12), ("", None, None), ("max\n", "max", None), ("-1\n", "-1", None),
     ("²\n", "²", None)],
)  # fmt: skip
def test_attributes(tmp_path: Path, content: str, line: str | None, number: int | None) -> None:
    (tmp_path / "a").write_text(content)
    assert read.read_optional_line(tmp_path / "a") == line
    assert read.read_optional_number(tmp_path / "a") == number


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert read.read_optional_text(tmp_path) is None
    assert read.read_optional_number(tmp_path / "none") is None
