"""How much time and memory a walk takes, whatever the number of entries."""

from __future__ import annotations

import os
import resource
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_io.filesystems.layout import walk
from slurm_io.filesystems.layout.audit import Result, audit
from slurm_io.filesystems.layout.audit_report import as_text
from slurm_io.filesystems.layout.question import Question
from slurm_io.filesystems.layout.waiting import Waiting
from tests.filesystems.layout.layout_tree import put, striped

pytestmark = pytest.mark.root


def look(root: Path) -> Result:
    return audit(Question(str(root), 8))


def test_memory_does_not_grow_with_the_files_of_a_folder(tree: Path) -> None:
    """Twenty thousand more names take no more memory: a folder is never held as a whole."""
    first = put(tree / "some/0", striped(1))
    (tree / "many").mkdir()
    for number in range(1000):
        os.link(first, tree / f"some/{number:0>200}")
    for number in range(20_000):
        os.link(first, tree / f"many/{number:0>200}")
    few = _peak_bytes(lambda: look(tree / "some"))
    many = _peak_bytes(lambda: look(tree / "many"))
    assert many < few + 256 * 1024, f"{few} and {many} bytes"


def _peak_bytes(work: Callable[[], object]) -> int:
    work()  # what is imported and cached
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.long
def test_a_million_entries_in_one_folder(tree: Path) -> None:
    for number in range(1_000_000):
        if number % 60_000 == 0:  # ext4 counts at most 65000 links
            first = put(tree / str(number), striped(1))
        else:
            os.link(first, tree / str(number))
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        result = look(tree)
        after_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    finally:
        shutil.rmtree(tree)
        tree.mkdir()
    assert result.tally.files == 1_000_000
    assert after_kib - before_kib < 32 * 1024, f"{before_kib} KiB before, {after_kib} after"


def test_folders_that_wait_are_bounded_and_what_is_left_out_is_told(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tree / "f", striped(1))
    for number in range(50):
        (tree / f"{number:0>100}").mkdir()
    monkeypatch.setattr("slurm_io.filesystems.layout.audit.Waiting", _small)
    result = look(tree)
    assert result.cut == "40 directories were too many to keep in memory"
    assert result.tally.directories == 11
    assert "Not all of it: 40 directories" in as_text(Question(str(tree), 8), result)


def _small(folders: list[bytes]) -> Waiting:
    return Waiting(folders, most_bytes=10 * 141)


def test_waiting_gives_room_back() -> None:
    waiting = Waiting(most_bytes=3 * 42)
    for _ in range(100):
        for name in (b"a", b"b", b"c"):
            waiting.add(name)
        assert (waiting.first(), waiting.last()) == (b"a", b"c")
        assert waiting.take(5) == [b"b"]
    assert waiting.left_out == 0
    for name in (b"a", b"b", b"c", b"d"):
        waiting.add(name)
    assert (len(waiting), waiting.left_out) == (3, 1)


def test_deadline_holds_within_a_folder_too(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2000):
        (tree / str(number)).touch()
    answers = iter([False, False, True])
    monkeypatch.setattr(walk, "is_late", lambda question: next(answers, True))
    result = look(tree)
    assert result.tally.files == walk._BATCH
    assert result.cut is not None and "out of time: 1 directories or more" in result.cut


def test_where_nothing_is_lustre_the_walk_gives_up_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurm_io.filesystems.layout.audit._GIVE_UP_FILES", 10)
    monkeypatch.setattr(walk.Walker.chunks, "__defaults__", (10,))
    for number in range(40):
        (tmp_path / f"d{number}").mkdir()
        (tmp_path / f"d{number}/f").touch()
    result = look(tmp_path)
    assert result.tally.files == 10
    assert result.cut == "none of the first 10 files lies on Lustre"
