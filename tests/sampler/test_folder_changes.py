"""When a folder has to be listed again."""

from __future__ import annotations

import os
from pathlib import Path

from slurm_io.sampler.folder_changes import FolderChanges


def answers(changes: FolderChanges, folder: Path, times: int) -> list[bool]:
    return [changes.may_have_come(folder.stat()) for _ in range(times)]


def test_a_folder_is_listed_twice_after_a_change_and_then_left_alone(tmp_path: Path) -> None:
    """Twice, because a second change may fall into the same moment of a coarse clock."""
    changes = FolderChanges()
    assert answers(changes, tmp_path, 5) == [True, True, False, False, False]
    os.utime(tmp_path, ns=(10**18, 10**18))
    assert answers(changes, tmp_path, 3) == [True, True, False]


def test_another_folder_of_that_name_is_listed(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        os.utime(folder, ns=(10**18, 10**18))
    changes = FolderChanges()
    assert answers(changes, one, 3) == [True, True, False]
    assert changes.may_have_come(other.stat())


def test_an_owner_who_turns_the_time_back_gains_seconds_only(tmp_path: Path) -> None:
    changes = FolderChanges()
    answers(changes, tmp_path, 3)
    before = tmp_path.stat()
    (tmp_path / "hidden").touch()
    os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert any(answers(changes, tmp_path, 15))
