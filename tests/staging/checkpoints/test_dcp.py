"""torch's distributed checkpoints, real ones: whole, torn, killed in the middle, overwritten."""

from __future__ import annotations

import os
import pickle
import signal
import time
import warnings
from pathlib import Path

import pytest

from tests.staging.checkpoints.made import cut, grow_old, in_python, only_save, zero_end

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
PART = "__0_0.distcp"
KILLED_BEFORE_THE_END = """
import os, sys, torch
import torch.distributed.checkpoint as dcp
class Killed(dcp.FileSystemWriter):
    def finish(self, metadata, results):
        os.kill(os.getpid(), 9)
dcp.save({"w": torch.ones(50_000)}, storage_writer=Killed(sys.argv[1]), no_dist=True)
"""


def save(folder: Path, size: int = 50_000) -> Path:
    import torch.distributed.checkpoint as dcp

    state = {"w": torch.ones(size), "opt": {"m": torch.zeros(10, 20), "lr": 0.1}, "step": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(state, checkpoint_id=str(folder), no_dist=True)
    return folder


def test_a_whole_one(tmp_path: Path) -> None:
    save(tmp_path / "step-300")
    told = only_save(tmp_path)
    assert (told["format"], told["state"], told["step"]) == ("dcp", "whole", 300)
    assert told["bytes"] > 200_000
    assert told["problems"] == []


def test_4_kib_lost_at_the_end_are_found_by_size(tmp_path: Path) -> None:
    cut(save(tmp_path / "step-1") / PART, 4096)
    grow_old(tmp_path)
    told = only_save(tmp_path)
    assert told["state"] == "broken"
    assert told["problems"][0]["file"] == PART
    assert "cut short" in told["problems"][0]["text"]


def test_the_same_while_it_may_still_be_written_is_unfinished(tmp_path: Path) -> None:
    cut(save(tmp_path / "step-1") / PART, 4096)
    told = only_save(tmp_path)
    assert (told["state"], told["young"]) == ("unfinished", True)


def test_a_file_of_a_rank_that_is_gone(tmp_path: Path) -> None:
    (save(tmp_path / "step-1") / PART).unlink()
    told = only_save(grow_old(tmp_path))
    assert told["problems"] == [{"file": PART, "text": "missing"}]


def test_a_process_killed_before_the_end_leaves_no_metadata(tmp_path: Path) -> None:
    assert in_python(KILLED_BEFORE_THE_END, str(tmp_path / "step-2")) == -signal.SIGKILL
    assert (tmp_path / "step-2" / PART).exists()
    told = only_save(grow_old(tmp_path))
    assert (told["format"], told["state"]) == ("dcp", "unfinished")
    assert told["problems"][0]["file"] == ".metadata"


@pytest.mark.parametrize("spoil", [lambda path: cut(path, 7), lambda path: zero_end(path, 64)])
def test_metadata_without_its_end(tmp_path: Path, spoil) -> None:  # type: ignore[no-untyped-def]
    spoil(save(tmp_path / "step-1") / ".metadata")
    told = only_save(grow_old(tmp_path))
    assert told["state"] == "broken"
    assert told["problems"][0]["file"] == ".metadata"


def test_an_overwrite_that_did_not_end(tmp_path: Path) -> None:
    """The old .metadata stays until the new save ends: sizes agree, content is of two saves."""
    folder = grow_old(save(tmp_path / "last"))
    os.utime(folder / PART, (time.time() - 600,) * 2)
    told = only_save(tmp_path)
    assert told["state"] == "broken"
    assert "a later save did not end" in told["problems"][0]["text"]


def test_clocks_that_differ_by_seconds_are_no_overwrite(tmp_path: Path) -> None:
    folder = grow_old(save(tmp_path / "last"))
    os.utime(folder / PART, (time.time() - 3600 + 30,) * 2)
    assert only_save(tmp_path)["state"] == "whole"


def test_files_of_an_older_larger_world_are_a_note(tmp_path: Path) -> None:
    folder = save(tmp_path / "step-1")
    (folder / "__7_0.distcp").write_bytes(b"old")
    told = only_save(grow_old(tmp_path))
    assert told["state"] == "whole"
    assert "__7_0.distcp" in told["notes"][0]


def test_model_and_optimizer_in_folders_of_their_own(tmp_path: Path) -> None:
    """As NeMo Automodel and others have it: one of the two may be missing its end."""
    for part in ("model", "optim"):
        save(tmp_path / "step-4" / part)
    told = only_save(grow_old(tmp_path))
    assert (told["format"], told["state"]) == ("step_folder", "whole")
    (tmp_path / "step-4" / "optim" / ".metadata").unlink()
    told = only_save(grow_old(tmp_path))
    assert told["state"] == "unfinished"
    assert told["problems"][0]["file"] == "optim/.metadata"
    cut(tmp_path / "step-4" / "model" / PART, 10)
    assert only_save(grow_old(tmp_path))["state"] == "broken"


class _Bad:
    def __init__(self, function, *arguments) -> None:  # type: ignore[no-untyped-def]
        self.call = function, arguments

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return self.call


def metadata(folder: Path, data: bytes) -> Path:
    folder.mkdir()
    (folder / PART).write_bytes(b"x")
    (folder / ".metadata").write_bytes(data)
    return grow_old(folder)


def test_a_pickle_that_calls_a_function_calls_nothing(tmp_path: Path) -> None:
    trap = tmp_path / "was-here"
    metadata(tmp_path / "step-1", pickle.dumps(_Bad(os.mkdir, str(trap))))
    told = only_save(tmp_path)
    assert told["state"] == "unknown"
    assert "which no checkpoint needs" in told["notes"][0]
    assert not trap.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04N.",
        b"\x80\x04}.",
        b"\x80\x04\x8c\x05torch\x8c\x04Size\x93.",  # a class and no object
        b"\x80\x04" + b"(" * 100_000 + b".",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",  # 8 EiB of bytes, it says
        b"garbage.",
    ],
    ids=["none", "dict", "class", "marks", "huge", "garbage"],
)
def test_metadata_that_is_something_else_is_unknown(tmp_path: Path, data: bytes) -> None:
    metadata(tmp_path / "step-1", data)
    assert only_save(tmp_path)["state"] == "unknown"


def test_metadata_that_names_a_file_elsewhere_opens_none(tmp_path: Path) -> None:
    """It is looked up among the files that were found, so a path leads nowhere."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"z" * 100)
    folder = save(tmp_path / "run" / "step-1")
    data = (folder / ".metadata").read_bytes()
    name = PART.encode()
    (folder / ".metadata").write_bytes(data.replace(name, b"../../victim"))
    assert len(name) == len(b"../../victim")
    told = only_save(grow_old(tmp_path / "run"))
    assert told["problems"] == [{"file": "../../victim", "text": "missing"}]
