"""Making and removing below one folder: no link leads out, whoever puts it there meanwhile."""

import os
import resource
import subprocess
from pathlib import Path

import pytest

from slurm_io.staging.beneath import Folder
from slurm_io.staging.stage.folders import entered, make_folders, remove


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside/deep").mkdir(parents=True)
    (tmp_path / "outside/keep").write_bytes(b"x" * 5000)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/link").symlink_to(tmp_path / "outside")
    return tmp_path / "outside"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_folders_are_made_where_missing(tmp_path: Path) -> None:
    with Folder.at(tmp_path) as tree:
        entered(tree, b"a/b/c")
        entered(tree, b"a/b/c")
        entered(tree, b"a/d")
    assert (tmp_path / "a/b/c").is_dir()
    assert (tmp_path / "a/d").is_dir()


def test_nothing_is_made_through_a_link(outside: Path, tmp_path: Path) -> None:
    with Folder.at(tmp_path / "tree") as tree:
        with pytest.raises(OSError):
            entered(tree, b"link/new")
        with pytest.raises(OSError):  # as when the link came between the two steps of the above
            make_folders(tree.fd, b"link/new", 0o755)
    assert names(outside) == ["deep", "keep"]


def test_a_link_is_removed_and_what_it_leads_to_stays(outside: Path, tmp_path: Path) -> None:
    with Folder.at(tmp_path / "tree") as tree:
        assert remove(tree, b"link") >= 0
        assert remove(tree, b"link") == 0  # gone already
    assert names(tmp_path / "tree") == []
    assert names(outside) == ["deep", "keep"]


def test_nothing_is_removed_through_a_link(outside: Path, tmp_path: Path) -> None:
    with Folder.at(tmp_path / "tree") as tree, pytest.raises(OSError):
        remove(tree, b"link/keep")
    assert names(outside) == ["deep", "keep"]


def test_a_folder_goes_with_all_below_it_and_says_how_much(outside: Path, tmp_path: Path) -> None:
    os.link(outside / "keep", outside / "deep/twin")  # a link more: nothing is given back for it
    (outside / "deep/own").write_bytes(bytes(5000))
    with Folder.at(tmp_path) as tree:
        freed = remove(tree, b"outside/deep")
    assert freed >= 5000
    assert names(outside) == ["keep"]


def test_folders_nested_without_end_are_told_and_no_fault_of_ours(tmp_path: Path) -> None:
    with Folder.at(tmp_path) as tree:
        here = os.dup(tree.fd)
        for _ in range(1500):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(here)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(8192, hard)), hard))
        try:
            with pytest.raises(OSError, match="nested|Too many open files"):
                remove(tree, b"d")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)


@pytest.mark.root
def test_what_is_mounted_below_stays(tmp_path: Path) -> None:
    mounted = tmp_path / "old/mounted"
    mounted.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "none", mounted], check=False).returncode:
        pytest.skip("no right to mount here")
    try:
        (mounted / "precious").write_bytes(b"x")
        with Folder.at(tmp_path) as tree, pytest.raises(OSError, match="mounted"):
            remove(tree, b"old")
        assert (mounted / "precious").exists()
    finally:
        subprocess.run(["umount", mounted], check=True)
