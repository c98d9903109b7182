"""``slurm-io stripe``: text and JSON, exit codes, one line for what cannot be done."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from slurm_io.commands.stripe import command
from slurm_io.errors import HostError
from slurm_io.filesystems.layout.audit import audit
from slurm_io.filesystems.layout.audit_report import nothing_read
from slurm_io.filesystems.layout.question import Question
from slurm_io.filesystems.mounts import MountTable, parse_mountinfo
from tests.filesystems.layout.layout_tree import put, striped, tree

__all__ = ["tree"]
GIB = 1 << 30


def stripe(*arguments: str | Path) -> Result:
    return CliRunner().invoke(
        command, [os.fspath(word) for word in arguments], catch_exceptions=False
    )


def refused(*arguments: str | Path) -> HostError:
    with pytest.raises(HostError) as caught:
        stripe(*arguments)
    return caught.value


@pytest.mark.root
def test_fitting_tree_is_exit_code_0(tree: Path) -> None:
    put(tree / "f", striped(1), 1000)
    done = stripe(tree)
    assert done.exit_code == 0
    assert "1 file in 1 directory" in done.output and "nothing." in done.output


@pytest.mark.root
def test_misfit_is_exit_code_1_with_the_command(tree: Path) -> None:
    put(tree / "f", striped(1), 20 * GIB)
    done = stripe(tree)
    assert done.exit_code == 1
    assert f"    lfs migrate -c 8 {tree}/f\n" in done.output
    assert "runs none of these commands" in done.output
    assert stripe(tree, "--readers", "3").exit_code == 0
    assert f"lfs migrate -c 2 {tree}/f" in stripe(tree, "--osts", "2").output
    assert f"lfs migrate -c 5 {tree}/f" in stripe(tree, "--most-osts", "5").output


@pytest.mark.root
def test_json_holds_the_numbers(tree: Path) -> None:
    put(tree / "f", striped(1), 20 * GIB)
    put(tree / "g", striped(5), 100 * GIB)
    done = stripe(tree, "--json")
    assert done.exit_code == 1
    content: dict[str, Any] = json.loads(done.output)
    assert content["schema"] == 1 and content["files"] == 2 and content["readers"] == 8
    assert content["files_by_size_and_osts"]["< 100 GiB"]["1"] == 1
    assert content["files_by_size_and_osts"]["< 1 TiB"]["4-7"] == 1
    assert content["ost_bytes"]["0"] == 40 * GIB
    (finding,) = content["findings"]
    assert finding["code"] == "narrow" and finding["facts"]["advised_osts"] == 8


@pytest.mark.root
def test_path_that_looks_like_an_option(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tree / "-c -1", striped(1), 20 * GIB)
    monkeypatch.chdir(tree)
    assert f"lfs migrate -c 8 '{tree}/-c -1'" in stripe("--", "-c -1").output


@pytest.mark.root
def test_sampling_and_time_limit_are_told(tree: Path) -> None:
    for number in range(4):
        put(tree / str(number), striped(1))
    assert "2 files were not looked at" in stripe(tree, "--sample", "2").output


@pytest.mark.root
def test_how_many_more_there_are_is_told(tree: Path) -> None:
    for number in range(5):
        put(tree / str(number), striped(1), 20 * GIB)
    output = stripe(tree, "--top", "2").output
    assert output.count("lfs migrate") == 2
    assert "3 more large files on too few OSTs" in output
    assert "more large files" not in stripe(tree).output


@pytest.mark.root
def test_small_files_are_mended_where_they_lie_and_not_above(tree: Path) -> None:
    for number in range(1001):
        put(tree / f"images/{number % 3}/{number}", striped(2), 1000)
    put(tree / "shards/large", striped(8), 20 * GIB)
    output = stripe(tree).output
    assert f"    lfs setstripe -c 1 {tree}/images\n" in output
    assert f"    lfs find {tree}/images -type f" in output


@pytest.mark.root
def test_tree_without_sizes_says_so(tree: Path) -> None:
    for number in range(1001):
        put(tree / str(number), striped(4))
    done = stripe(tree)
    assert done.exit_code == 0, "nobody knows whether these are small"
    assert "All files are empty: on a metadata target sizes are not known" in done.output


def test_what_is_not_lustre_is_exit_code_3(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    error = refused(tmp_path)
    assert "does not lie on Lustre but on " in str(error)
    assert error.exit_code == 3


def test_where_lustre_is_mounted_is_told(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    line = "40 30 0:50 / /mnt/scratch rw - lustre 10.0.0.1@tcp:/scratch rw"
    mounts = MountTable(parse_mountinfo(f"30 1 8:1 / / rw - ext4 /dev/sda1 rw\n{line}\n"))
    question = Question(str(tmp_path), 8)
    told = nothing_read(question, audit(question), mounts)
    assert told == (
        f"{tmp_path} does not lie on Lustre but on ext4 (/dev/sda1); Lustre is mounted at"
        " /mnt/scratch"
    )


def test_empty_and_missing(tmp_path: Path) -> None:
    assert "no file was looked at: it holds none" in str(refused(tmp_path))
    missing = refused(tmp_path / "no\nsuch")
    assert "No such file or directory" in str(missing) and str(missing).isprintable()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach, which tmp_path is not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextlib.contextmanager
def another_user() -> Iterator[None]:
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.mark.root
@pytest.mark.parametrize("below", ["", "closed"])
def test_folder_that_may_not_be_read_says_so_and_what_to_do(open_folder: Path, below: str) -> None:
    (open_folder / "closed").mkdir(mode=0o700)
    with another_user():
        told = str(refused(open_folder / below))
    assert "Permission denied" in told and f"{open_folder}/closed" in told
    assert told.endswith("run it as a user who may read it, or as root")


@pytest.mark.root
def test_working_directory_of_another_user_is_no_obstacle(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `sudo -u` leaves one."""
    (open_folder / "data").mkdir()
    (open_folder / "data/f").touch()
    (open_folder / "home").mkdir(mode=0o700)
    monkeypatch.chdir(open_folder / "home")
    with another_user():
        told = str(refused(open_folder / "data"))
    assert "does not lie on Lustre" in told
    assert "on a metadata target, run it as root" in told


@pytest.mark.root
def test_time_that_is_too_short_is_the_reason_told(tree: Path) -> None:
    put(tree / "f", striped(1))
    assert "out of time" in str(refused(tree, "--seconds", "0.000001"))


def test_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    done = subprocess.run(
        [sys.executable, "-m", "slurm_io", "stripe", tmp_path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3 and done.stdout == ""
    assert done.stderr.startswith("slurm-io: ") and done.stderr.count("\n") == 1
