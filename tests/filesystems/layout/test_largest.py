"""The sample a prolog takes of a tree: fair, and bounded whatever lies there."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from slurm_io.filesystems.layout.largest import Sample, sample_tree
from slurm_io.filesystems.layout.policy import GIB
from tests.filesystems.layout.layout_tree import put, striped

pytestmark = pytest.mark.root


def test_sample_of_the_largest_and_of_the_small(tree: Path) -> None:
    for number in range(50):
        put(tree / f"d{number % 5}/{number}", striped(1), number << 20)
    sample = sample_tree(str(tree), time.monotonic() + 10, Sample(3, 2, 10 << 20))
    assert sorted(size >> 20 for size, _ in sample.large) == [47, 48, 49]
    assert (sample.files, sample.small_files, len(sample.small)) == (50, 10, 2)
    assert sample.cut is None
    late = sample_tree(str(tree), time.monotonic() - 1, Sample(3, 2, 10 << 20))
    assert late.cut is not None


def test_every_small_file_has_the_same_chance_to_be_drawn() -> None:
    drawn, sample = [0] * 200, Sample(1, 20, 10)
    for _ in range(300):
        sample = Sample(1, 20, 10, _state=sample._state)
        for number in range(200):
            sample.add(1, str(number))
        for _, name in sample.small:
            drawn[int(name)] += 1
    assert sum(drawn) == 6000
    assert min(drawn) > 8 and max(drawn) < 62, "30 each, within six standard deviations"


def test_sample_of_a_prolog_is_bounded_by_memory(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurm_io.filesystems.layout.largest._MOST_WAITING_BYTES", 10 * 141)
    put(tree / "f", striped(1), GIB)
    for number in range(50):
        (tree / f"{number:0>100}").mkdir()
    sample = sample_tree(str(tree), time.monotonic() + 20, Sample(3, 2, 10 << 20))
    assert sample.cut == "40 folders too many to keep in memory"
    assert [size for size, _ in sample.large] == [GIB]


def test_sample_of_a_prolog_ends_in_time_in_a_folder_of_folders(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        (tree / str(number)).mkdir()
    clock = SimpleNamespace(monotonic=iter((0.0, 0.0, 9.0)).__next__)
    monkeypatch.setattr("slurm_io.filesystems.layout.largest._CLOCK_EVERY", 1)
    monkeypatch.setattr("slurm_io.filesystems.layout.largest.time", clock)
    sample = sample_tree(str(tree), 5.0, Sample(3, 2, 10 << 20))
    assert sample.cut == "out of time: the rest of a folder"
