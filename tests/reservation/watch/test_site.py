"""The watch's hands on a real machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from slurm_io.config import parse
from slurm_io.reservation.watch.act import Event
from slurm_io.reservation.watch.site import Site


def test_no_code_is_taken_from_the_folder_in_which_the_watch_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may have started it in a folder of a user's."""
    evil = tmp_path / "slurm_io"
    evil.mkdir()
    (evil / "__init__.py").write_text("")
    (evil / "__main__.py").write_text(f"open({str(tmp_path / 'taken')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    nothing: Any = None
    log = tmp_path / "log"
    pid, _ = Site(nothing, nothing, parse({}), None, "train", str(log)).start(("--version",))
    assert os.waitpid(pid, 0)[1] == 0, log.read_text()
    assert "slurm-io, version" in log.read_text()
    assert not (tmp_path / "taken").exists()


def test_what_is_said_of_a_node_steers_no_terminal() -> None:
    line = Event(
        0.0, "looks-bad", "train", "drained (\x1b]0;x\x07\nroot: all is well)", "t3"
    ).line()
    assert line.isprintable()
