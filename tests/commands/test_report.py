"""``slurm-io report``: which store, where to, and how it looks on a terminal."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_io.analysis.api import write_atomically

SLURM_IO = (sys.executable, "-m", "slurm_io")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real store, of a command that does nothing."""
    folder = tmp_path_factory.mktemp("jobs") / "slurm-io-7"
    subprocess.run([*SLURM_IO, "run", "-o", folder, "--", "true"], check=True)
    return folder


def report(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SLURM_IO, "report", *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


def on_a_terminal(store: Path, **environment: str) -> str:
    """What a terminal 60 columns wide is sent."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "60", "LINES": "40", **environment}
    with subprocess.Popen([*SLURM_IO, "report", store], stdout=theirs, env=environment) as child:
        os.close(theirs)
        sent = b""
        while True:
            try:
                sent += os.read(ours, 4096)
            except OSError:  # Linux: the other end was closed
                break
        assert child.wait() == 0
    os.close(ours)
    return sent.decode()


def test_a_job_is_found_by_its_number_in_the_folder_it_ran_in(store: Path) -> None:
    by_number = report("7", "--json", cwd=store.parent)
    assert json.loads(by_number.stdout)["job"]["state"] == "COMPLETED"
    assert by_number.stdout == report(store, "-f", "json").stdout


@pytest.mark.parametrize("given", ["8", "/nonexistent", "/etc/hostname", "/dev/null", "."])
def test_what_is_no_store_is_one_line_and_exit_code_3(given: str, tmp_path: Path) -> None:
    done = report(given, cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("slurm-io: ")
    assert done.stderr.count("\n") == 1


def test_an_empty_word_is_wrong_use(store: Path) -> None:
    assert report("").returncode == 2
    assert report(store, "-o", "").returncode == 2


def test_a_terminal_gets_colour_and_its_own_width(store: Path) -> None:
    sent = on_a_terminal(store, NO_COLOR="")
    assert "\x1b[1" in sent
    plain = on_a_terminal(store, NO_COLOR="1")
    assert "\x1b" not in plain
    # A path alone in its line may be longer: it has no place to break.
    assert not [line for line in plain.split("\r\n") if len(line) > 60 and " " in line.strip()]


def test_a_pipe_gets_neither(store: Path) -> None:
    assert report(store).stdout == (store / "report.txt").read_text()


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    """As root a rename would put a file in the place of /dev/null."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(fifo, "text")
    assert os.read(reader, 99) == b"text"
    os.close(reader)
    assert stat.S_ISFIFO(fifo.lstat().st_mode)


def test_devices_are_not_replaced(store: Path) -> None:
    done = report(store, "-o", "/dev/stdout")
    assert done.returncode == 0
    assert done.stdout.startswith("slurm-io: ")


def test_a_link_is_replaced_and_what_it_leads_to_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("precious")
    (tmp_path / "link").symlink_to("theirs")
    write_atomically(tmp_path / "link", "text")
    assert (tmp_path / "theirs").read_text() == "precious"
    assert (tmp_path / "link").read_text() == "text"
    assert not (tmp_path / "link").is_symlink()


def test_a_report_has_the_rights_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "report", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "report").stat().st_mode) == 0o600


def test_a_store_is_private(store: Path) -> None:
    """Paths and command lines are the user's own."""
    assert stat.S_IMODE(store.stat().st_mode) == 0o700
