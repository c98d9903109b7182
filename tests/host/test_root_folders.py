"""Root's folders: links, foreign owners and swapped entries never lead it astray."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_io.errors import HostError
from slurm_io.host.root_folders import (
    child_folder,
    is_plain_name,
    read_file,
    trusted_folder,
    write_file,
)


def test_missing_folders_are_made_with_the_mode_asked_for(tmp_path: Path) -> None:
    with trusted_folder(str(tmp_path / "a" / "b"), create=True, mode=0o711):
        pass
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o711


def test_a_missing_folder_is_an_error_unless_asked_for(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="'a'"), trusted_folder(str(tmp_path / "a")):
        pass


def test_a_link_in_the_sites_own_path_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with trusted_folder(str(tmp_path / "link")) as folder:
        assert os.fstat(folder).st_ino == (tmp_path / "real").stat().st_ino


def test_a_link_as_a_child_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    with trusted_folder(str(tmp_path)) as folder, pytest.raises(HostError):
        child_folder(folder, "link", "here", 0o755)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc", "a\nb", "a\0b"])
def test_a_name_that_is_a_path_is_refused(tmp_path: Path, name: str) -> None:
    assert not is_plain_name(name)
    with trusted_folder(str(tmp_path)) as folder, pytest.raises(HostError, match="cannot be"):
        child_folder(folder, name, "here", 0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another's folder")
def test_a_folder_of_another_user_anywhere_on_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs" / "below").mkdir(parents=True)
    os.chown(tmp_path / "theirs", 5, 60)
    with pytest.raises(HostError, match="uid 5"), trusted_folder(str(tmp_path / "theirs/below")):
        pass


def test_a_folder_that_others_can_write_to_is_refused_unless_sticky(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(HostError, match="by others"), trusted_folder(str(tmp_path / "open")):
        pass
    (tmp_path / "open").chmod(0o1777)
    with trusted_folder(str(tmp_path / "open")):
        pass


def test_writing_replaces_a_link_and_leaves_its_target(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / "file").symlink_to(victim)
    with trusted_folder(str(tmp_path)) as folder:
        write_file(folder, "file", b"new", 0o600)
    assert victim.read_text() == "kept"
    assert not (tmp_path / "file").is_symlink()
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "victim"]


def test_reading_follows_no_link_and_waits_for_no_pipe(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").write_bytes(b"x" * 100)
    with trusted_folder(str(tmp_path)) as folder:
        assert read_file(folder, "absent") is None
        assert read_file(folder, "long") == b"x" * 100
        for name, limit in (("link", 1000), ("pipe", 1000), ("long", 99)):
            with pytest.raises(HostError):
                read_file(folder, name, limit)
