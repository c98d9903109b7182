"""What is written beside a user's own files: never over anything that is not ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_io.epilog.case import Case
from slurm_io.epilog.user_side import job_json, make_own_folder, publish, store_of
from slurm_io.errors import StoreError
from slurm_io.model import JobIdentity


def case(**changes: object) -> Case:
    identity = JobIdentity.from_dict(
        {"cluster": "lab", "job": "7", "restart": 0, "user": "ada", "uid": 5, **changes}
    )
    return Case(identity, "t1", 0)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "slurm-io-7"
    folder.mkdir()
    (folder / "report.txt").write_text("first")
    return folder


def test_names_of_the_first_run_and_of_a_requeued_one() -> None:
    assert store_of(case(work_dir="/home/ada")) == Path("/home/ada/slurm-io-7")
    assert store_of(case(work_dir="/home/ada", restart=2)) == Path("/home/ada/slurm-io-7.2")
    with pytest.raises(StoreError, match="spool"):
        store_of(case(work_dir=None))


def test_nodes_expected_falls_back_to_the_node_itself() -> None:
    assert job_json(case(nodes=("t1", "t2")))["nodes_expected"] == ["t1", "t2"]
    assert job_json(case())["nodes_expected"] == ["t1"]


def test_the_report_is_replaced_by_its_own_successor(store: Path) -> None:
    target = store.parent / "slurm-io-7.txt"
    publish(store, target)
    assert target.read_text() == "first"
    (store / "report.txt").write_text("second")
    publish(store, target)
    assert target.read_text() == "second"
    assert sorted(path.name for path in store.parent.iterdir()) == ["slurm-io-7", "slurm-io-7.txt"]


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "folder", "pipe"])
def test_what_is_there_already_stays(store: Path, kind: str) -> None:
    target, other = store.parent / "slurm-io-7.txt", store.parent / "other"
    other.write_text("kept")
    makers = {
        "file": lambda: target.write_text("kept"),
        "link": lambda: target.symlink_to(other),
        "dangling link": lambda: target.symlink_to(store.parent / "absent"),
        "folder": target.mkdir,
        "pipe": lambda: os.mkfifo(target),
    }
    makers[kind]()
    before = target.lstat()
    with pytest.raises(StoreError, match="not ours"):
        publish(store, target)
    assert target.lstat().st_ino == before.st_ino
    assert other.read_text() == "kept"
    assert not (store.parent / "absent").exists()


def test_a_report_that_the_user_replaced_is_his(store: Path) -> None:
    target = store.parent / "slurm-io-7.txt"
    publish(store, target)
    mine = store.parent / "mine"
    mine.write_text("annotated")
    mine.rename(target)
    with pytest.raises(StoreError, match="not ours"):
        publish(store, target)
    assert target.read_text() == "annotated"


def test_a_report_that_the_user_removed_comes_back(store: Path) -> None:
    target = store.parent / "slurm-io-7.txt"
    publish(store, target)
    target.unlink()
    publish(store, target)
    assert target.read_text() == "first"


def test_an_own_folder_is_made_private_or_taken_as_it_is(tmp_path: Path) -> None:
    make_own_folder(tmp_path / "store")
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o700
    make_own_folder(tmp_path / "store")


def test_a_link_or_file_in_the_stores_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "file").write_text("")
    for name in ("link", "file"):
        with pytest.raises(StoreError, match="move it away"):
            make_own_folder(tmp_path / name)
