"""Which entries are the newest saves, what their names tell, and what points at them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from slurm_io.staging.checkpoints.look_in import look_in
from slurm_io.staging.checkpoints.names import shape, step_of
from slurm_io.staging.checkpoints.wanted import series_folder
from tests.staging.checkpoints.made import archive, saves_in, seen


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("step-1500", 1500), ("global_step500", 500), ("iter_0000100", 100), ("checkpoint-42", 42),
        ("epoch=3-step=1200.ckpt", 1200), ("epoch_7.pt", 7), ("ckpt-9.pt", 9), ("0000300", 300),
        ("model_000250.pt", 250), ("best.pt", None), ("rank3.pt", None), ("release", None),
        ("model-00002-of-00004.bin", None), ("last.ckpt", None), ("STEP_8", 8), ("ep5-ba200", 200),
        ("llama3-8b.pt", None), ("run_12345", None),
    ],
)  # fmt: skip
def test_steps_of_names(name: str, step: int | None) -> None:
    assert step_of(name, is_file="." in name) == step


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/s/ckpt/step-10", "/s/ckpt"),
        ("/s/ckpt/step-10.pt", "/s/ckpt"),
        ("/s/ckpt/step-10/model.pt", "/s/ckpt"),
        ("/s/iter_0000100/mp_rank_00_001/model_optim_rng.pt", "/s"),
        ("/s/out/checkpoint-500/pytorch_model_fsdp_0", "/s/out"),
        ("/s/run_12345/last.pt", "/s/run_12345"),
        ("/step-1", "/"),
        ("/s/ckpt/../ckpt2x/step-1", "/s/ckpt2x"),
    ],
)
def test_where_a_series_lies(path: str, folder: str) -> None:
    assert series_folder(path) == folder


def test_the_newest_three(tmp_path: Path) -> None:
    for step in range(1, 6):
        archive(tmp_path / f"step-{step}.pt")
        then = time.time() - 1000 + step
        os.utime(tmp_path / f"step-{step}.pt", (then, then))
    told = saves_in(tmp_path, seen(tmp_path / "step-5.pt"))
    assert [one["step"] for one in told] == [5, 4, 3]


def test_files_of_other_series_and_other_jobs_are_left_alone(tmp_path: Path) -> None:
    archive(tmp_path / "step-1.pt")
    archive(tmp_path / "somebody-elses.pt")
    archive(tmp_path / "other-run" / "model.pt")
    assert [one["step"] for one in saves_in(tmp_path, seen(tmp_path / "step-1.pt"))] == [1]


def test_a_file_for_each_rank_is_one_save(tmp_path: Path) -> None:
    for rank in range(4):
        archive(tmp_path / f"step-7-rank{rank}.pt")
        archive(tmp_path / f"step-8-rank{rank}.pt")
    told = saves_in(tmp_path, seen(tmp_path / "step-8-rank0.pt"))
    assert sorted((one["step"], one["files"]) for one in told) == [(7, 4), (8, 4)]
    assert told[0]["path"].endswith("step-*-rank*.pt")


def test_a_save_renamed_when_it_was_done(tmp_path: Path) -> None:
    archive(tmp_path / "step-7" / "model.pt")
    archive(tmp_path / "other.pt")
    written_as = seen(tmp_path / "tmp-step-7" / "model.pt", returned_ns=time.time_ns())
    [told] = saves_in(tmp_path, written_as)
    assert (told["step"], told["returned"]) == (7, True)


def test_shapes() -> None:
    assert shape("step-10.pt") == shape("step-2000.pt.tmp") == "step-#.pt"
    assert shape("step-10.pt") != shape("model-10.pt")


def pointers(folder: Path) -> list[dict[str, object]]:
    told: list[dict[str, object]] = look_in(str(folder), (), time.monotonic() + 60)["pointers"]
    return told


def test_what_names_the_newest(tmp_path: Path) -> None:
    archive(tmp_path / "global_step5" / "mp_rank_00_model_states.pt")
    (tmp_path / "latest").write_text("global_step5\n")
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("120")
    (tmp_path / "latest.pt").symlink_to("global_step5")
    assert pointers(tmp_path) == [
        {"file": "latest", "names": "global_step5", "exists": True},
        {"file": "latest.pt", "names": "global_step5", "exists": True},
        {"file": "latest_checkpointed_iteration.txt", "names": "iter_0000120", "exists": False},
    ]


@pytest.mark.parametrize(
    "text", [b"../../etc/passwd", b"", b"a\nb", b"\xff" * 5000, b"/abs", b".."]
)
def test_a_pointer_that_leads_out_or_nowhere_names_nothing(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "latest").write_bytes(text)
    assert pointers(tmp_path) == [{"file": "latest", "names": None, "exists": None}]


def test_a_pointer_that_is_a_fifo(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "latest")
    assert pointers(tmp_path) == []
