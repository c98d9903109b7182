"""How far root follows a path: links of admins, and nothing that a user could have put there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_io.filesystems.own_ground import admins_path, users_mount_points
from tests.filesystems.node_trees import NodeTree

pytestmark = pytest.mark.root
JOB, OTHER = 5, 6


@pytest.fixture
def room() -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("gives folders and links to users")
    with tempfile.TemporaryDirectory() as name:
        made = Path(name).resolve()
        made.chmod(0o755)
        for folder in ("admin", "target"):
            (made / folder).mkdir()
        yield made


def owned(path: Path, uid: int, mode: int = 0o755) -> Path:
    path.mkdir()
    path.chmod(mode)
    os.chown(path, uid, -1)
    return path


def link(path: Path, target: Path | str, uid: int = 0) -> Path:
    path.symlink_to(target)
    os.lchown(path, uid, -1)
    return path


def followed(path: Path | str, *closed: Path) -> str:
    return admins_path(os.fspath(path), JOB, {os.fspath(each) for each in closed})


def test_links_of_admins_are_followed(room: Path) -> None:
    link(room / "admin" / "one", "../admin/two")
    link(room / "admin" / "two", room / "target")
    (room / "target" / "x").mkdir()
    assert followed(f"{room}//admin/./one/x/") == f"{room}/target/x"
    assert followed(room / "target" / ".." / "admin" / "one") == f"{room}/target"
    assert followed("/") == "/"


def test_what_is_not_there_is_the_rest_of_the_path(room: Path) -> None:
    link(room / "admin" / "one", room / "target")
    assert followed(room / "admin" / "one" / "no" / "such") == f"{room}/target/no/such"


@pytest.mark.parametrize("uid", [0, OTHER])
def test_an_admins_own_folder_may_belong_to_a_service_account(room: Path, uid: int) -> None:
    data = owned(room / "data", uid)
    link(data / "current", room / "target", uid)
    assert followed(data / "current") == f"{room}/target"


def test_a_folder_of_the_jobs_user_is_not_entered(room: Path) -> None:
    mine = owned(room / "mine", JOB)
    link(mine / "data", "/dead")
    assert followed(mine / "data") == str(room)
    assert followed(mine) == str(room)


def test_a_link_of_the_jobs_user_is_not_followed(room: Path) -> None:
    assert followed(link(room / "admin" / "one", "/dead", JOB)) == f"{room}/admin"


@pytest.mark.parametrize(
    ("mode", "uid", "entered"),
    [
        (0o1777, 0, True),  # as /tmp: what is root's is root's
        (0o1777, OTHER, False),
        (0o777, 0, False),  # others may rename what is root's
        (0o775, OTHER, False),
        (0o755, OTHER, True),
    ],
)
def test_in_a_folder_that_others_write_to_nothing_is_believed(
    room: Path, mode: int, uid: int, entered: bool
) -> None:
    shared = owned(room / "shared", 0, mode)
    one = link(shared / "one", room / "target", uid)
    assert followed(one) == f"{room}/{'target' if entered else 'shared'}"
    two = owned(shared / "two", uid)
    assert followed(two) == f"{room}/shared{'/two' if entered else ''}"


def test_links_that_lead_in_circles_end(room: Path) -> None:
    link(room / "admin" / "one", "two")
    link(room / "admin" / "two", "one")
    assert followed(room / "admin" / "one" / "x") == f"{room}/admin"


def test_a_closed_mount_point_is_not_touched(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touched, lstat = [], os.lstat
    monkeypatch.setattr(os, "lstat", lambda path: touched.append(path) or lstat(path))
    closed = room / "admin" / "fuse"
    closed.mkdir()
    assert followed(closed / "x", closed) == f"{room}/admin"
    assert str(closed) not in touched


def test_roots_own_job_has_no_ground_of_its_own(room: Path) -> None:
    assert admins_path(f"{room}/target", 0) == f"{room}/target"


def test_mounts_that_users_made(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path)
    tree.mount("/home/u/mnt", "0:50", "fuse.sshfs", "x", super_options="rw,user_id=1000")
    tree.mount("/home/u/two", "0:51", "fuse", "user_id=0", super_options="rw,user_id=1000")
    tree.mount("/sys/fs/fuse", "0:52", "fusectl", "none")
    tree.mount("/weka", "0:53", "fuse.weka", "weka", super_options="rw,user_id=0")
    assert users_mount_points(str(tree.proc)) == {"/home/u/mnt", "/home/u/two"}
    assert users_mount_points("/nonexistent") == frozenset()
