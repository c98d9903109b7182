"""When a folder has to be listed again."""

from __future__ import annotations

import os
import time
from pathlib import Path

from slurm_io.sampler.folder_changes import FolderChanges


def answers(changes: FolderChanges, folder: Path, times: int) -> list[bool]:
    return [changes.may_have_come(folder.stat()) for _ in range(times)]


def changed_s_ago(folder: Path, age_s: float) -> None:
    then_ns = time.time_ns() - int(age_s * 1e9)
    os.utime(folder, ns=(then_ns, then_ns))


def test_a_settled_folder_is_listed_once(tmp_path: Path) -> None:
    changed_s_ago(tmp_path, 10)
    changes = FolderChanges()
    assert answers(changes, tmp_path, 5) == [True, False, False, False, False]
    (tmp_path / "new").touch()
    assert changes.may_have_come(tmp_path.stat())


def test_a_folder_that_has_just_changed_may_change_again_within_the_same_moment(
    tmp_path: Path,
) -> None:
    (tmp_path / "new").touch()
    assert answers(FolderChanges(), tmp_path, 3) == [True, True, True]


def test_another_folder_of_that_name_is_listed(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    for folder in (one, other):
        os.utime(folder, ns=(10**18, 10**18))
    changes = FolderChanges()
    assert answers(changes, one, 2) == [True, False]
    assert changes.may_have_come(other.stat())


def test_an_owner_who_turns_the_time_back_gains_seconds_only(tmp_path: Path) -> None:
    changed_s_ago(tmp_path, 10)
    changes = FolderChanges()
    assert answers(changes, tmp_path, 2) == [True, False]
    before = tmp_path.stat()
    (tmp_path / "new").touch()
    os.utime(tmp_path, ns=(before.st_mtime_ns, before.st_mtime_ns))
    assert any(answers(changes, tmp_path, 20))
