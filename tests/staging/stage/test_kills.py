"""Killed at any moment, a stage goes on, ends proven, and never said ready before."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.staging.stage.kit import Site
from tests.staging.stage.victim import check_resume, killed_after

SIZES = {f"part-{n:02}/shard.tar": 200_000 for n in range(20)} | {"big.tar": 3_000_000}
BANDWIDTH = 25_000_000
LONGEST_S = 0.7
"""About what the whole takes at this bandwidth."""


def _killed_and_resumed(folder: Path, seed: int, kills: int) -> int:
    """How many of the kills came before the end."""
    chance, killed = random.Random(seed), 0
    for number in range(kills):
        site = Site.made(folder / str(number), SIZES)
        killed += killed_after(site, chance.uniform(0.01, LONGEST_S), BANDWIDTH)
        check_resume(site)
    return killed


def test_killed_at_random_moments(tmp_path: Path) -> None:
    assert _killed_and_resumed(tmp_path, 4, 4) >= 1


@pytest.mark.long
def test_killed_at_thirty_random_moments(tmp_path: Path) -> None:
    assert _killed_and_resumed(tmp_path, 30, 30) >= 10


@pytest.mark.long
def test_killed_again_and_again_it_still_comes_to_its_end(tmp_path: Path) -> None:
    site, chance = Site.made(tmp_path, SIZES), random.Random(7)
    for _ in range(30):
        if not killed_after(site, chance.uniform(0.05, 0.25), BANDWIDTH):
            break
    check_resume(site)


def _steps(folder: Path, first: int, every: int) -> int:
    command = [sys.executable, "-m", "tests.staging.stage.victim", os.fspath(folder)]
    done = subprocess.run(
        [*command, str(first), str(every)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


def test_killed_at_some_file_operations(tmp_path: Path) -> None:
    assert _steps(tmp_path, 5, 41) > 100


@pytest.mark.long
def test_killed_at_every_file_operation(tmp_path: Path) -> None:
    assert _steps(tmp_path, 1, 1) > 100
