"""The hooks' log: bounded, one printable line an event, and never a reason to fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_io.host.bounded_log import BoundedLog


def test_a_line_names_time_and_place_and_holds_nothing_unprintable(tmp_path: Path) -> None:
    log = BoundedLog(str(tmp_path / "log"), 10_000, "prolog t1")
    log.write("all well\nforged line\x1b[2J \udcff")
    (line,) = (tmp_path / "log").read_text().splitlines()
    assert line.isprintable()
    assert "Z prolog t1: all well forged line" in line


def test_it_never_grows_past_twice_its_size(tmp_path: Path) -> None:
    log = BoundedLog(str(tmp_path / "log"), 1000, "x")
    for _ in range(200):
        log.write("y" * 80)
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 2
    assert max(sizes) < 1300


def test_one_event_is_cut(tmp_path: Path) -> None:
    BoundedLog(str(tmp_path / "log"), 1 << 20, "x").write("y" * 1_000_000)
    assert (tmp_path / "log").stat().st_size < 3000


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder", "writable"])
def test_what_is_no_log_of_ours_is_left_alone(tmp_path: Path, kind: str) -> None:
    victim, path = tmp_path / "victim", tmp_path / "log"
    victim.write_text("kept")
    makers = {
        "link": lambda: path.symlink_to(victim),
        "hard link": lambda: path.hardlink_to(victim),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "writable": lambda: (path.write_text(""), path.chmod(0o666)),
    }
    makers[kind]()
    BoundedLog(str(path), 1000, "x").write("text")
    assert victim.read_text() == "kept"
    if kind == "writable":
        assert path.read_text() == ""
