"""How large the next checkpoint will be, by the ones that real savers leave."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.prolog.newest_checkpoint import Found, _is_unfinished, find_newest

HOUR_S = 3600


def put(path: Path, size_bytes: int, hours_ago: float = 1.0) -> None:
    """A file of a size and an age; its folder gets the same age."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size_bytes)
    written_s = time.time() - hours_ago * HOUR_S
    os.utime(path, (written_s, written_s))
    os.utime(path.parent, (written_s, written_s))


def find(folder: Path, **limits: int) -> Found:
    return find_newest(os.fspath(folder), time.monotonic() + 10, **limits)


def newest(folder: Path) -> tuple[str, int, int] | None:
    """Name, bytes and files of what is found."""
    found = find(folder).newest
    return (Path(found.path).name, found.size_bytes, found.files) if found else None


@pytest.mark.parametrize(
    "name",
    ["checkpoint-2000", "iter_0002000", "global_step2000", "step2000", "epoch=3-step=2000", "2000",
     "ep1-ba2000-rank0", "my_run_ckpt_2000", "Checkpoint2000"],
)  # fmt: skip
def test_folders_named_by_their_step(tmp_path: Path, name: str) -> None:
    put(tmp_path / "run" / "checkpoint-1" / "model.bin", 900, hours_ago=9)
    put(tmp_path / "run" / name / "model.safetensors", 600)
    put(tmp_path / "run" / name / "state" / "rng.dat", 400)
    put(tmp_path / "run" / "logs" / "out.txt", 10**6)
    os.utime(tmp_path / "run" / name, (time.time(), time.time()))
    assert newest(tmp_path) == (name, 1000, 2)
    assert find(tmp_path).present == 2


def test_single_files(tmp_path: Path) -> None:
    for number in range(5):
        put(tmp_path / f"epoch={number}.ckpt", 1000 + number, hours_ago=9 - number)
    assert newest(tmp_path) == ("epoch=4.ckpt", 1004, 1)


def test_files_written_together_are_one_checkpoint(tmp_path: Path) -> None:
    put(tmp_path / "best" / "model.safetensors", 1000)
    put(tmp_path / "best" / "optimizer.pt", 2000)
    put(tmp_path / "best" / "config.json", 5)
    assert newest(tmp_path) == ("best", 3000, 2)


def test_shards_belong_together_however_long_saving_took(tmp_path: Path) -> None:
    for number in range(1, 4):
        put(tmp_path / f"model-0000{number}-of-00003.safetensors", 1000, hours_ago=number)
    assert newest(tmp_path) == (tmp_path.name, 3000, 3)


@pytest.mark.parametrize(
    "name", ["step300.tmp", "tmp-step300", "300.orbax-checkpoint-tmp-17", "step300.incomplete"]
)
def test_what_is_named_unfinished_does_not_count(tmp_path: Path, name: str) -> None:
    put(tmp_path / "step200" / "model.pt", 1000, hours_ago=2)
    put(tmp_path / name / "model.pt", 990)
    assert newest(tmp_path) == ("step200", 1000, 1)


def test_words_that_only_contain_tmp_are_finished() -> None:
    assert not _is_unfinished("checkpoint-attempt-3")
    assert _is_unfinished("checkpoint-3.tmp")


def test_a_distributed_checkpoint_is_whole_with_its_metadata(tmp_path: Path) -> None:
    put(tmp_path / "step200" / "__0_0.distcp", 1000, hours_ago=2)
    put(tmp_path / "step200" / ".metadata", 10, hours_ago=2)
    put(tmp_path / "step300" / "__0_0.distcp", 1000)
    assert newest(tmp_path) == ("step200", 1010, 2)


def test_an_interrupted_save_is_smaller_than_the_one_before(tmp_path: Path) -> None:
    put(tmp_path / "step200" / "model.pt", 1000, hours_ago=2)
    put(tmp_path / "step300" / "model.pt", 499)
    assert newest(tmp_path) == ("step200", 1000, 1)
    put(tmp_path / "step300" / "model.pt", 501)
    assert newest(tmp_path) == ("step300", 501, 1)


def test_nothing_there(tmp_path: Path) -> None:
    put(tmp_path / "notes.txt", 10)
    (tmp_path / "step100").mkdir()
    found = find(tmp_path)
    assert (found.newest, found.present, found.cut) == (None, 0, "")
    with pytest.raises(FileNotFoundError):
        find(tmp_path / "missing")


def test_no_link_is_followed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    put(tmp_path / "outside" / "step1" / "model.pt", 10**9)
    put(folder / "step1" / "model.pt", 1000)
    (folder / "step2").symlink_to("../outside/step1")
    (folder / "loop").symlink_to(".")
    (folder / "model.pt").symlink_to("../outside/step1/model.pt")
    assert newest(folder) == ("step1", 1000, 1)


def test_a_search_ends_after_so_many_entries(tmp_path: Path) -> None:
    for number in range(50):
        put(tmp_path / f"notes{number}.txt", 1)
    assert find(tmp_path, entries_max=20).cut == "too many entries"


def test_a_search_ends_when_its_time_is_over(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"notes{number}.txt").touch()
    assert find_newest(os.fspath(tmp_path), time.monotonic()).cut == "no time left"


def test_hostile_names(tmp_path: Path) -> None:
    put(tmp_path / "step1" / "model.pt", 1000)
    for name in (b"step2\n", b"-rf", b"step\xff3", b"s" * 255, b"$(x).pt"):
        (tmp_path / os.fsdecode(name)).mkdir()
    assert newest(tmp_path) == ("step1", 1000, 1)


@given(st.text(max_size=300))
@settings(max_examples=200)
def test_any_name_is_judged(name: str) -> None:
    _is_unfinished(name)
