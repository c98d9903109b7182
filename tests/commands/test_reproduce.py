"""``slurm-io reproduce``: the folder, what is missing, exit codes. The passes: tests/analysis."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SLURM_IO = (sys.executable, "-m", "slurm_io")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real store, of a command that trains nothing."""
    folder = tmp_path_factory.mktemp("jobs") / "slurm-io-7"
    subprocess.run([*SLURM_IO, "run", "-o", folder, "--", "true"], check=True)
    return folder


def reproduce(cwd: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SLURM_IO, "reproduce", *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_a_job_by_its_number_is_written_beside_its_store(store: Path) -> None:
    done = reproduce(store.parent, "7", "--json")
    assert done.returncode == 0
    told = json.loads(done.stdout)
    folder = store.parent / "reproduce-slurm-io-7"
    assert sorted(path.name for path in folder.iterdir()) == [
        "loader_passes.py", "plain_passes.py", "recipe.json", "reproduce.py",
    ]  # fmt: skip
    assert json.loads((folder / "recipe.json").read_text()) == told["recipe"]
    assert set(told["missing"]) == {"compute_s", "dataset", "bytes_per_item"}
    assert told["recipe"]["command"] == ["true"]
    assert told["command"] == "python reproduce-slurm-io-7/reproduce.py"


def test_what_is_missing_is_told_with_its_reason_and_can_be_written_again(
    store: Path, tmp_path: Path
) -> None:
    for _ in range(2):
        done = reproduce(tmp_path, store, "-o", "here it is")
        assert done.returncode == 0
    assert "missing: compute_s: no step was timed" in done.stdout
    assert "python 'here it is/reproduce.py'" in done.stdout


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("whose", [".", "job.json"])
def test_another_users_store_is_told_by_its_folder_or_its_job_file(
    whose: str, store: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(store, tmp_path / "theirs")
    os.chown(copy / whose, 4711, -1)
    done = reproduce(tmp_path, copy, "--json")
    assert json.loads(done.stdout)["recipe"]["store_owner"] == 4711
    assert "recorded program: true" in reproduce(tmp_path, copy).stdout


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_nothing_is_written_where_another_user_could_change_it(store: Path, tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    os.chown(tmp_path / "r", 4711, -1)
    done = reproduce(tmp_path, store, "-o", "r")
    assert done.returncode == 3
    assert "belongs to another user" in done.stderr
    assert not any((tmp_path / "r").iterdir())


def test_what_was_filled_in_by_hand_is_kept(store: Path, tmp_path: Path) -> None:
    assert reproduce(tmp_path, store, "-o", "r").returncode == 0
    recipe = tmp_path / "r" / "recipe.json"
    recipe.write_text(recipe.read_text().replace('"compute_s": "MISSING', '"compute_s": "0.1'))
    filled = recipe.read_text()
    done = reproduce(tmp_path, store, "-o", "r")
    assert done.returncode == 3
    assert "filled in by hand" in done.stderr
    assert recipe.read_text() == filled


def test_a_name_of_the_stores_steers_no_terminal(store: Path, tmp_path: Path) -> None:
    hostile = os.fsdecode(os.fsencode(tmp_path) + b"/n\xff\x07red")
    shutil.copytree(store, hostile)
    told = json.loads((Path(hostile) / "job.json").read_text())
    told["command"] = ["python", "\x07\udcff.py"]
    (Path(hostile) / "job.json").write_text(json.dumps(told))
    for place in ((), ("-o", "x\x07")):
        done = reproduce(tmp_path, hostile, *place)
        assert done.returncode == 0
        assert "\x07" not in done.stdout + done.stderr
    assert (tmp_path / "reproduce-n__red" / "recipe.json").is_file()


def test_no_store_and_no_place_are_one_line(store: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for arguments in ((tmp_path / "nothing",), (store, "-o", tmp_path / "file")):
        done = reproduce(tmp_path, *arguments)
        assert done.returncode == 3
        assert done.stderr.count("\n") == 1
