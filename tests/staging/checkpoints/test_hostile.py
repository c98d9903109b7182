"""A user's folder may hold anything, and may change while it is looked at."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import pytest

from slurm_io.host.probe import probe
from slurm_io.staging.beneath import Folder
from slurm_io.staging.checkpoints import found as found_module
from slurm_io.staging.checkpoints.file_checks import judge_files
from slurm_io.staging.checkpoints.found import find_folder
from slurm_io.staging.checkpoints.look_in import look_in, look_in_child
from slurm_io.staging.checkpoints.pickle_stub import Blank, PickleError, Stub, read_pickle
from tests.staging.checkpoints.made import archive, grow_old, only_save, saves_in, seen

KEPT = ("Size", "load")


def dcp_with(folder: Path, metadata: bytes) -> Path:
    folder.mkdir(parents=True)
    (folder / "__0_0.distcp").write_bytes(b"x")
    (folder / ".metadata").write_bytes(metadata)
    return folder


def test_a_fifo_in_a_files_place_stops_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "step-1.pt")
    archive(tmp_path / "step-2" / "model.pt")
    os.mkfifo(tmp_path / "step-2" / "optim.pt")
    told = only_save(tmp_path, seen(tmp_path / "step-1.pt"), seen(tmp_path / "step-2/model.pt"))
    assert told["state"] == "unknown"
    assert told["notes"][0] == "optim.pt is a FIFO"


def test_links_are_not_followed(tmp_path: Path) -> None:
    secret = archive(tmp_path / "elsewhere" / "secret.pt")
    run = tmp_path / "run"
    archive(run / "step-3" / "model.pt")
    (run / "step-3" / "optim.pt").symlink_to(secret)
    (run / "step-4.pt").symlink_to(secret)
    (run / "step-5").symlink_to(secret.parent)
    told = only_save(run)
    assert (told["step"], told["state"], told["files"]) == (3, "unknown", 1)


def test_a_file_swapped_for_a_link_when_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the listing and the opening: the opening refuses."""
    secret = archive(tmp_path / "secret.pt")
    target = archive(tmp_path / "run" / "step-1.pt")
    original = found_module.open_regular

    def swap_first(folder_fd: int, name: bytes, flags: int = 0) -> tuple[int, os.stat_result]:
        target.unlink(missing_ok=True)
        target.symlink_to(secret)
        return original(folder_fd, name, flags)

    monkeypatch.setattr(found_module, "open_regular", swap_first)
    told = only_save(tmp_path / "run", seen(target))
    assert told["state"] == "unknown"
    assert "a symbolic link" in told["notes"][0]


def test_a_folder_of_many_entries_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found_module, "MOST_ENTRIES", 20)
    for number in range(40):
        archive(tmp_path / "step-1" / f"rank{number}.pt", b"")
    told = only_save(tmp_path)
    assert told["state"] == "unknown"
    assert told["notes"][0] == "more than 20 entries"


def test_a_deep_tree_ends_somewhere(tmp_path: Path) -> None:
    deep = tmp_path / "step-1"
    archive(deep / "model.pt")
    for _ in range(40):
        deep = deep / "d"
    deep.mkdir(parents=True)
    told = only_save(tmp_path)
    assert "is a folder" in told["notes"][0]


def test_no_time_left_is_said(tmp_path: Path) -> None:
    archive(tmp_path / "step-1.pt")
    told = look_in(str(tmp_path), (), time.monotonic() - 1)
    assert told["saves"] == []
    assert told["reason"] == "no time was left for all of its saves"


def test_files_that_no_time_was_left_for_are_not_called_whole(tmp_path: Path) -> None:
    """A slow file system: what was looked at so far is told, and nothing of the rest."""
    archive(tmp_path / "step-1" / "a.pt")
    with Folder.at(tmp_path) as folder:
        found = find_folder(folder, b"step-1", time.monotonic() + 60)
        found.deadline_s = time.monotonic() - 1
        said = judge_files(found, found.files)
    assert (said.state, said.notes) == ("unknown", ("no time was left for 1 files",))


@pytest.mark.parametrize(
    "raw", [b"step-1\xff\xfe.pt", b"step-1\x1b[31m.pt", "step-1-\u202e.pt".encode()], ids=repr
)
def test_names_are_fit_for_a_terminal(tmp_path: Path, raw: bytes) -> None:
    whole = archive(tmp_path / "made.pt")
    whole.rename(tmp_path / os.fsdecode(raw))
    told = only_save(tmp_path)
    assert told["path"].isprintable()
    told["path"].encode("utf-8")
    assert told["state"] == "whole"


MEMO_BOMB = b"\x80\x04Nr" + struct.pack("<I", 2**31 - 1) + b"."  # 32 GiB of memo for one entry
LIST_BOMB = b"\x80\x04" + b"\x8e" + struct.pack("<Q", 2**40) + b"x" * 100 + b"."
DEEP_KEY = b"\x80\x04}" + b"N" + b"\x85" * 3_000_000 + b"Ns."  # hashing it recurses in C


@pytest.mark.parametrize("bomb", [MEMO_BOMB, LIST_BOMB, DEEP_KEY], ids=["memo", "size", "depth"])
def test_a_pickle_bomb_costs_its_own_child_at_most(tmp_path: Path, bomb: bytes) -> None:
    dcp_with(tmp_path / "step-1", bomb)
    grow_old(tmp_path)
    answer = probe(look_in_child, str(tmp_path), [], True, 20.0, timeout_s=60)
    if answer.state == "ok":
        [save] = answer.value["saves"]
        assert save["state"] in ("unknown", "broken")
    else:
        assert "without an answer" in answer.reason


@pytest.mark.parametrize(
    "name", ["os\nsystem", "builtins\neval", "builtins\n__import__", "subprocess\nPopen",
             "torchx\nload", "pickle\nloads", "builtins\nexec"],
)  # fmt: skip
def test_names_out_of_known_packages_are_refused(name: str) -> None:
    with pytest.raises(PickleError, match="no checkpoint needs"):
        read_pickle(b"\x80\x02c" + name.encode() + b"\n.", KEPT)


def test_names_of_known_packages_lead_to_nothing_real() -> None:
    """torch.hub.load would fetch and run code, were it the function itself."""
    made = read_pickle(b"\x80\x02ctorch.hub\nload\nX\x03\x00\x00\x00abc\x85R.", KEPT)
    assert isinstance(made, Stub)
    assert not hasattr(made, "__wrapped__")


def test_a_member_of_an_enum_as_some_pythons_write_it_is_looked_up_nowhere() -> None:
    name = b"X\x0b\x00\x00\x00__globals__"
    made = read_pickle(b"\x80\x02cbuiltins\ngetattr\nctorch.hub\nload\n" + name + b"\x86R.", KEPT)
    assert isinstance(made, Blank)


def test_classes_of_one_pickle_do_not_reach_the_next() -> None:
    """BUILD can set attributes on a class."""
    first = read_pickle(b"\x80\x04ctorch\nSize\n)\x81.", KEPT)
    second = read_pickle(b"\x80\x04ctorch\nSize\n)\x81.", KEPT)
    assert type(first) is not type(second)


def test_files_deleted_while_they_are_listed(tmp_path: Path) -> None:
    gone = seen(tmp_path / "step-9.pt")
    archive(tmp_path / "step-8.pt")
    assert [one["step"] for one in saves_in(tmp_path, gone)] == [8]
