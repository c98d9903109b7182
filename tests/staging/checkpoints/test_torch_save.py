"""Files of torch.save, real ones: cut short, zeros at the end, a writer killed in the middle."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.staging.checkpoints.made import (
    archive,
    cut,
    grow_old,
    in_python,
    only_save,
    saves_in,
    seen,
    zero_end,
)

KILLED_IN_THE_MIDDLE = """
import os, sys, torch
class Dying:
    def __init__(self, path):
        self.file, self.left = open(path, "wb", buffering=0), 300_000
    def write(self, data):
        self.left -= len(data)
        if self.left < 0:
            os.kill(os.getpid(), 9)
        return self.file.write(data)
    def flush(self):
        pass
torch.save({str(k): torch.ones(10_000) for k in range(20)}, Dying(sys.argv[1]))
"""
SAVE = """
import sys, torch
torch.save({"w": torch.ones(100_000)}, sys.argv[1])
torch.save({"w": torch.ones(1_000)}, sys.argv[2], _use_new_zipfile_serialization=False)
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """step-100.pt and one of the older format beside it, in folders of their own."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("saved")
    assert in_python(SAVE, str(folder / "step-100.pt"), str(folder / "older-200.pt")) == 0
    return folder


def copy(saved: Path, target: Path, name: str = "step-100.pt") -> Path:
    target.mkdir(exist_ok=True)
    (target / name).write_bytes((saved / name).read_bytes())
    return target / name


@pytest.mark.torch
class TestReal:
    def test_whole(self, saved: Path, tmp_path: Path) -> None:
        copy(saved, tmp_path)
        told = only_save(grow_old(tmp_path))
        assert (told["format"], told["state"], told["step"]) == ("torch_save", "whole", 100)

    @pytest.mark.parametrize("lost", [1, 30, 4096, 300_000])
    def test_cut_short(self, saved: Path, tmp_path: Path, lost: int) -> None:
        cut(copy(saved, tmp_path), lost)
        told = only_save(grow_old(tmp_path))
        assert told["state"] == "broken"
        assert told["problems"] == [
            {"file": "step-100.pt", "text": "the end of the archive is missing: cut short"}
        ]

    @pytest.mark.parametrize("count", [22, 4096])
    def test_zeros_at_the_end(self, saved: Path, tmp_path: Path, count: int) -> None:
        zero_end(copy(saved, tmp_path), count)
        told = only_save(grow_old(tmp_path))
        assert told["problems"][0]["text"] == "its end is zeros"

    def test_a_writer_killed_in_the_middle(self, tmp_path: Path) -> None:
        pytest.importorskip("torch")
        assert in_python(KILLED_IN_THE_MIDDLE, str(tmp_path / "ckpt-7.pt")) == -signal.SIGKILL
        assert (tmp_path / "ckpt-7.pt").stat().st_size > 100_000
        assert only_save(tmp_path)["state"] == "unfinished"
        told = only_save(grow_old(tmp_path))
        assert (told["state"], told["step"]) == ("broken", 7)

    def test_the_older_format_cannot_be_told(self, saved: Path, tmp_path: Path) -> None:
        cut(copy(saved, tmp_path, "older-200.pt"), 100)
        assert only_save(grow_old(tmp_path))["state"] == "unknown"


def test_empty_and_all_zero_files_by_their_name(tmp_path: Path) -> None:
    (tmp_path / "step-1.pt").touch()
    (tmp_path / "step-2.pt").write_bytes(bytes(10_000))
    (tmp_path / "notes.txt").write_bytes(bytes(10_000))
    told = saves_in(grow_old(tmp_path))
    assert {one["state"] for one in told} == {"broken"}
    assert {one["problems"][0]["text"] for one in told} == {
        "empty", "its beginning is no archive's",
    }  # fmt: skip


def test_other_archives_and_files_are_no_checkpoints(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "data.npz", "w") as made:
        made.writestr("a.npy", b"x")
    (tmp_path / "train.log").write_text("step 1")
    (tmp_path / "config.json").write_text("{}")
    assert saves_in(tmp_path) == []


def test_a_torn_file_whose_save_returned_is_broken_at_once(tmp_path: Path) -> None:
    """The job itself saw the save end: nobody is writing any more."""
    path = archive(tmp_path / "step-5.pt")
    cut(path, 40)
    returned = seen(path, returned_ns=path.stat().st_mtime_ns + 1)
    told = only_save(tmp_path, returned)
    assert (told["state"], told["returned"], told["young"]) == ("broken", True, True)


def test_one_written_again_since_it_returned_is_unfinished(tmp_path: Path) -> None:
    path = archive(tmp_path / "last.pt")
    cut(path, 40)
    long_ago = seen(path, returned_ns=path.stat().st_mtime_ns - 30 * 10**9)
    assert only_save(tmp_path, long_ago)["state"] == "unfinished"


def test_a_long_save_is_young_for_twice_its_length(tmp_path: Path) -> None:
    cut(archive(tmp_path / "step-5.pt"), 40)
    grow_old(tmp_path, 500)
    assert only_save(tmp_path, seen(tmp_path / "step-5.pt", longest_s=400))["young"]
    assert not only_save(tmp_path, seen(tmp_path / "step-5.pt", longest_s=200))["young"]


def test_a_file_written_in_the_future_is_young(tmp_path: Path) -> None:
    cut(archive(tmp_path / "step-5.pt"), 40)
    grow_old(tmp_path, -3600)
    assert only_save(tmp_path)["state"] == "unfinished"


@pytest.mark.parametrize("size", [0, 1, 3, 4, 21, 22, 64])
def test_any_beginning_of_an_archive_is_broken(tmp_path: Path, size: int) -> None:
    os.truncate(archive(tmp_path / "step-5.pt"), size)
    assert only_save(grow_old(tmp_path))["state"] == "broken"


def test_an_archive_with_a_comment_or_without_wide_records_is_whole(tmp_path: Path) -> None:
    import zipfile

    path = archive(tmp_path / "step-5.pt")
    with zipfile.ZipFile(path, "a") as made:
        made.comment = b"PK\x05\x06 of a user"
    assert only_save(grow_old(tmp_path))["state"] == "whole"


def test_a_table_of_contents_that_lies_elsewhere_is_broken(tmp_path: Path) -> None:
    """What a lost piece in the middle leaves: the end is there, and does not fit."""
    path = archive(tmp_path / "step-5.pt", b"y" * 50_000)
    data = path.read_bytes()
    path.write_bytes(data[:20_000] + data[24_096:])
    assert "does not lie before its end" in only_save(grow_old(tmp_path))["problems"][0]["text"]
