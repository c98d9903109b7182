"""``slurm-io compare``: real stores, exit codes, one line for what cannot be done."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SLURM_IO = (sys.executable, "-m", "slurm_io")
TRAIN = """
import sys, time, random
from slurm_io_hook import watch
dice = random.Random(1)
def batches():
    for k in range(220):
        time.sleep(float(sys.argv[1]) * dice.uniform(0.5, 1.5))
        yield k
for batch in watch(batches()):
    time.sleep(0.004)
"""


def compare(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SLURM_IO, "compare", *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs of a loop: waits of 4 ms and of 30 ms: a busy machine adds some to both."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "train.py").write_text(TRAIN)
    made = []
    for number, wait in enumerate(("0.004", "0.030")):
        made.append(folder / f"run{number}")
        command = [*SLURM_IO, "run", "-o", made[-1], "--", sys.executable, "train.py", wait]
        subprocess.run(command, cwd=folder, check=True)
    return made


def test_a_run_with_longer_waits_is_slower_and_exits_with_1(stores: list[Path]) -> None:
    done = compare(stores[0], stores[1], "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["verdict"] == "slower"
    mean = next(one for one in found["figures"] if one["figure"] == "step_mean")
    assert mean["low"] > 0.3
    assert [one["setting"] for one in found["changed"]] == ["command"]
    text = compare(stores[0], stores[1]).stdout
    assert "changed   command: 0.004 -> 0.030" in text


def test_a_store_is_no_different_from_itself(stores: list[Path]) -> None:
    done = compare(stores[0], stores[0])
    assert done.returncode == 0
    assert "note      A and B are one and the same store" in done.stdout
    assert "NO DIFFERENCE PROVEN" in done.stdout


def test_samples_lost_to_damage_are_no_difference_of_storage(
    tmp_path: Path, stores: list[Path]
) -> None:
    shutil.copytree(stores[0], tmp_path / "damaged")
    [samples] = (tmp_path / "damaged").glob("node=*/waits-*.parquet")
    samples.write_bytes(samples.read_bytes()[:500])
    done = compare(stores[0], tmp_path / "damaged", "--json")
    assert done.returncode == 0
    assert any(
        note.startswith("not seen in B only: waits") for note in json.loads(done.stdout)["notes"]
    )


def test_nothing_to_compare_is_exit_code_3_and_the_reason_is_told(
    tmp_path: Path, stores: list[Path]
) -> None:
    subprocess.run([*SLURM_IO, "run", "-o", tmp_path / "b", "--", "true"], check=True)
    done = compare(stores[0], tmp_path / "b")
    assert done.returncode == 3
    assert "neither hook nor log told of steps in B" in " ".join(done.stdout.split())


def test_no_store_is_one_line(tmp_path: Path, stores: list[Path]) -> None:
    done = compare(stores[0], tmp_path)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert compare(stores[0]).returncode == 2
