"""The way to the dataset's folder, of which users may own a part: root is not led astray."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_io.errors import HostError
from slurm_io.staging.stage.janitor import clean
from slurm_io.staging.stage.target_folder import open_target
from tests.staging.stage.kit import Site

NOBODY = 65534
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give links to somebody else")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.made(tmp_path)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the system's, with a file that looks like a killed copy's."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "passwd").write_text("precious")
    (folder / ".passwd.Ab12Cd").write_text("precious")
    os.utime(folder / ".passwd.Ab12Cd", (1, 1))
    return folder


def led_to(site: Site, outside: Path, at: Path, uid: int) -> None:
    """A link of this user's on the way to the dataset."""
    at.parent.mkdir(parents=True, exist_ok=True)
    at.symlink_to(outside)
    os.lchown(at, uid, uid)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@root
@pytest.mark.parametrize("depth", ["the folder", "a folder above"])
def test_root_neither_writes_nor_removes_through_a_users_link(
    depth: str, site: Site, outside: Path
) -> None:
    at = site.target if depth == "the folder" else site.target.parent
    led_to(site, outside, at, NOBODY)
    before = names(outside)
    with pytest.raises(HostError, match="link of uid 65534"):
        site.stage(delete_extra=True)
    with pytest.raises(HostError, match="link of uid 65534"):
        clean(site.order(debris_age_s=0.0))
    assert names(outside) == before


@root
@pytest.mark.parametrize("command", ["stage", "clean"])
def test_a_path_on_the_command_line_is_no_exception(
    command: str, site: Site, outside: Path, tmp_path: Path
) -> None:
    led_to(site, outside, site.target, NOBODY)
    before = names(outside)
    words = ["--path", str(site.target), "--manifest", str(tmp_path / "demo.jsonl")]
    config = tmp_path / "config.toml"
    config.write_text(f'state_dir = "{tmp_path}/state"\n')
    argv = [sys.executable, "-m", "slurm_io", "dataset", command, *words, "--config", str(config)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 3 and "link of uid 65534" in done.stderr
    assert names(outside) == before


@root
def test_roots_own_links_are_followed(site: Site, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    led_to(site, tmp_path / "disk", site.target.parent, 0)
    assert site.stage().state == "ready"
    assert (tmp_path / "disk/demo/index.json").exists()


@pytest.mark.parametrize("way", ["a/b/c", "a/./b//c", "a/b/../b/c", "loose/c"])
def test_ways_that_lead_to_one_folder(way: str, tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "loose").symlink_to("a/b")
    with open_target(f"{tmp_path}/{way}", make=True) as tree:
        assert os.path.samestat(os.fstat(tree.fd), (tmp_path / "a/b/c").stat())


def test_links_in_a_ring_end(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(OSError, match="symbolic links"):
        open_target(f"{tmp_path}/one/c", make=True)


def test_what_is_missing_is_told_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_target(f"{tmp_path}/not/there")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        open_target(f"{tmp_path}/file/below", make=True)
    assert names(tmp_path) == ["file"]
