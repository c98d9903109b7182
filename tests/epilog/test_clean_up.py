"""Runtime folders that were set aside go, whatever a user left or mounted in his part of them."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_io.epilog.clean_up import remove_set_aside, set_aside_runtime
from tests.labs.mounts import mounted_at

pytestmark = pytest.mark.root


@pytest.fixture
def node() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve() / "run" / "t1"
        folder.mkdir(parents=True)
        yield folder
        for point in folder.rglob("*"):
            if mounted_at(point):
                subprocess.run(["umount", "-l", point], check=False)


def aside(node: Path, name: str) -> Path:
    folder = node / f".old-{name}-0.1"
    (folder / "ring" / "deeper").mkdir(parents=True)
    (folder / "ring" / "litter").touch()
    return folder


def cover(point: Path) -> None:
    """As a user does with FUSE."""
    subprocess.run(["mount", "-t", "tmpfs", "none", point], check=True)


def remove(node: Path) -> list[str]:
    said: list[str] = []
    remove_set_aside(str(node / "7"), said.append)
    return said


def test_what_a_user_mounted_over_his_ring_folder_is_detached_and_all_goes(node: Path) -> None:
    folder = aside(node, "3")
    cover(folder / "ring")
    cover(folder / "ring")
    assert remove(node) == []
    assert not folder.exists()


def test_one_that_resists_holds_up_no_other(node: Path) -> None:
    folders = [aside(node, name) for name in ("1", "2", "3")]
    cover(folders[1] / "ring" / "deeper")
    (said,) = remove(node)
    assert "a user's file system is mounted in it" in said
    assert [folder.exists() for folder in folders] == [False, True, False]
    assert mounted_at(folders[1] / "ring" / "deeper"), "root unmounts nothing that a user names"


def test_only_the_run_that_ended_is_set_aside(node: Path) -> None:
    runtime = node / "7"
    (runtime / "ring").mkdir(parents=True)
    (runtime / "restart").write_text("2\n")
    said: list[str] = []
    set_aside_runtime(str(runtime), 1, said.append)
    assert runtime.exists()
    set_aside_runtime(str(runtime), 2, said.append)
    assert not runtime.exists()
    assert said == []
    assert remove(node) == []
    assert not list(node.iterdir())
