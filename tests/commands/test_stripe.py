"""``slurm-io stripe``: text and JSON, exit codes, one line for what cannot be done."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from slurm_io.commands.stripe import command
from slurm_io.errors import HostError, UsageError
from tests.filesystems.layout.layout_tree import put, striped, tree

__all__ = ["tree"]
GIB = 1 << 30


def stripe(*arguments: str | Path) -> Result:
    return CliRunner().invoke(
        command, [os.fspath(word) for word in arguments], catch_exceptions=False
    )


def refused(*arguments: str | Path) -> Exception:
    with pytest.raises((HostError, UsageError)) as caught:
        stripe(*arguments)
    return caught.value


@pytest.mark.root
def test_fitting_tree_is_exit_code_0(tree: Path) -> None:
    put(tree / "f", striped(1), 1000)
    done = stripe(tree)
    assert done.exit_code == 0
    assert "1 files in 1 directories" in done.output and "nothing." in done.output


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


def test_what_is_not_lustre_is_exit_code_3(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    error = refused(tmp_path)
    assert isinstance(error, HostError) and "does not lie on Lustre" in str(error)
    assert error.exit_code == 3


def test_empty_and_missing(tmp_path: Path) -> None:
    assert "no file was looked at" in str(refused(tmp_path))
    missing = refused(tmp_path / "no\nsuch")
    assert isinstance(missing, UsageError) and str(missing).isprintable()


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
