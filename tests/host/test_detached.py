"""A process that slurmd neither waits for nor kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurm_io.host import detached
from slurm_io.host.same_process import is_alive, send_signal, starttime_of

SPAWN = """
import sys
from slurm_io.host.detached import spawn
print(spawn(["/bin/sleep", "60"], {}, sys.argv[1]), flush=True)
"""


def test_it_outlives_its_parent_and_its_group_and_holds_nothing(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    parent = subprocess.Popen(
        [sys.executable, "-c", SPAWN, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        pass_fds=(writer,),
        start_new_session=True,
    )
    os.close(writer)
    output, _ = parent.communicate(timeout=30)  # ends only when nobody holds its stdout
    pid = int(output)
    try:
        assert os.read(reader, 1) == b"", "an inherited descriptor is still open"
        assert os.getsid(pid) == pid != parent.pid
        targets = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
        assert sorted(targets) == sorted(["/dev/null", *2 * [str(tmp_path / "log")]])
        assert Path(f"/proc/{pid}/environ").read_bytes() == b""
    finally:
        os.close(reader)
        os.kill(pid, signal.SIGKILL)


def test_a_link_in_the_logs_place_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match=r"symbolic links|Too many levels"):
        detached.spawn(["/bin/true"], {}, str(tmp_path / "log"))
    assert not (tmp_path / "victim").exists()


def test_the_environment_is_minimal() -> None:
    source = {"SLURM_CONF": "/c", "SLURM_JOB_COMMENT": "x", "LD_PRELOAD": "/evil", "SPANK_X": "y"}
    kept = detached.minimal_environment(source)
    assert kept.pop("SLURM_CONF") == "/c"
    assert set(kept) == {"PATH", "LC_ALL"}


def systemd(tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An executable in systemd-run's place; the file that it writes its arguments into."""
    path = tmp_path / "systemd-run"
    path.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/arguments\n{body}\n')
    path.chmod(0o755)
    monkeypatch.setattr(detached, "SYSTEMD_RUN", str(path))
    return tmp_path / "arguments"


def test_systemd_is_asked_for_a_unit_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = systemd(tmp_path, "exit 0", monkeypatch)
    assert detached.spawn_unit("slurm-io-1", ["/bin/true", "a b"], {"A": "1"}, 60)
    words = arguments.read_text().splitlines()
    assert "--unit=slurm-io-1" in words
    assert "--property=RuntimeMaxSec=60" in words
    assert "--setenv=A=1" in words
    assert words[words.index("--") + 1 :] == ["/bin/true", "a b"]


@pytest.mark.parametrize("body", ["exit 1", "exec sleep 60"])
def test_a_systemd_that_refuses_or_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    systemd(tmp_path, body, monkeypatch)
    began = time.monotonic()
    assert not detached.spawn_unit("u", ["/bin/true"], {}, 60)
    assert time.monotonic() - began < 10


def test_a_signal_reaches_the_very_process_or_nobody() -> None:
    process = subprocess.Popen(["/bin/sleep", "60"])
    starttime = starttime_of(process.pid)
    assert starttime is not None
    assert is_alive(process.pid, starttime)
    assert not is_alive(process.pid, starttime + 1)
    assert not send_signal(process.pid, starttime + 1, signal.SIGKILL)
    assert process.poll() is None
    assert send_signal(process.pid, starttime, signal.SIGTERM)
    assert process.wait(timeout=10) == -signal.SIGTERM
    assert not send_signal(process.pid, starttime, signal.SIGTERM)
    assert starttime_of(process.pid) is None


def test_a_zombie_is_not_alive() -> None:
    process = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert starttime_of(process.pid) is None
    process.wait()
