"""The look itself: where the job saved, in children, bounded, one file at the end."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from slurm_io.staging.checkpoints.look import FILE, look_at_saves, main
from slurm_io.staging.checkpoints.wanted import wanted_in
from slurm_io.store.reader import open_job
from tests.analysis.stand_in import Job, StandInStore, one_rank, train
from tests.analysis.test_real_store import write_store
from tests.labs.slowfs import SlowFs, fuse_missing
from tests.staging.checkpoints.made import archive, cut, grow_old

needs_fuse = pytest.mark.skipif(bool(fuse_missing()), reason=str(fuse_missing()))


def job_that_saved(*paths: Path | str, **more: Any) -> StandInStore:
    """A short job whose hook saw these paths saved."""
    rank = train(one_rank(), 5, 0.05, lambda k: (0.01, "pipe"))
    for path in paths:
        rank.event("ckpt_save", 0.2, bytes=1000, path=str(path), **more)
    return Job([rank]).store()


def look(folder: Path, store: StandInStore, most_s: float = 20.0) -> dict[str, Any]:
    write_store(folder, store)
    assert look_at_saves(folder, most_s)
    told: dict[str, Any] = json.loads((folder / FILE).read_text())
    return told


def test_what_was_saved_is_looked_at_and_told(tmp_path: Path) -> None:
    paths = [archive(tmp_path / "ckpt" / f"step-{step}.pt") for step in (1, 2)]
    cut(paths[1], 30)
    grow_old(tmp_path / "ckpt")
    told = look(tmp_path / "store", job_that_saved(*paths))
    [series] = told["folders"]
    assert series["path"] == str(tmp_path / "ckpt")
    assert {one["step"]: one["state"] for one in series["saves"]} == {1: "whole", 2: "broken"}
    assert told["looked_ts_ns"] <= time.time_ns()
    assert open_job(tmp_path / "store").checkpoints == told


def test_a_store_given_from_where_we_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child that reads the tables stands elsewhere."""
    write_store(tmp_path / "store", job_that_saved(archive(tmp_path / "ckpt" / "step-1.pt")))
    monkeypatch.chdir(tmp_path)
    assert main(["store"]) == 0
    assert json.loads((tmp_path / "store" / FILE).read_text())["folders"][0]["saves"]


def test_a_job_that_saved_nothing_leaves_no_file(tmp_path: Path) -> None:
    write_store(tmp_path / "store", job_that_saved())
    assert not look_at_saves(tmp_path / "store")
    assert not (tmp_path / "store" / FILE).exists()
    assert open_job(tmp_path / "store").checkpoints is None


def test_the_folder_that_the_request_names(tmp_path: Path) -> None:
    archive(tmp_path / "ckpt" / "step-1.pt")
    store = job_that_saved()
    write_store(tmp_path / "store", store)
    checks = {"request": {"ckpt": str(tmp_path / "ckpt")}, "checks": []}
    (tmp_path / "store" / "node=n1" / "checks.json").write_text(json.dumps(checks))
    assert look_at_saves(tmp_path / "store")
    told = json.loads((tmp_path / "store" / FILE).read_text())
    assert told["folders"][0]["saves"][0]["state"] == "whole"


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    told = look(tmp_path / "store", job_that_saved("/nowhere/at/all/step-1.pt"))
    assert told["folders"][0]["reason"] == "No such file or directory"


def test_of_many_folders_the_latest_and_how_many_were_left(tmp_path: Path) -> None:
    paths = [archive(tmp_path / f"run{chr(97 + number)}" / "a.pt") for number in range(12)]
    told = look(tmp_path / "store", job_that_saved(*paths))
    assert [one["path"][-4:] for one in told["folders"]] == [f"run{c}" for c in "lkjihgfe"]
    assert told["reason"] == "4 more folders were not looked at"


def test_a_failed_save_did_not_return_and_cut_paths_lead_nowhere(tmp_path: Path) -> None:
    write_store(tmp_path / "store", job_that_saved("/s/step-1.pt", "cut/step-2.pt", failed=True))
    [folder] = wanted_in(str(tmp_path / "store"))["folders"]
    assert folder["folder"] == "/s"
    assert folder["named"][0]["returned_ns"] is None


def test_a_table_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    write_store(tmp_path / "store", job_that_saved("/s/step-1.pt"))
    (tmp_path / "store" / "node=n1" / "events-0000.parquet").write_bytes(b"not parquet")
    assert look_at_saves(tmp_path / "store")
    told = json.loads((tmp_path / "store" / FILE).read_text())
    assert told["folders"] == []
    assert "where the job saved cannot be read" in told["reason"]


def test_a_link_in_the_files_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    path = archive(tmp_path / "ckpt" / "step-1.pt")
    write_store(tmp_path / "store", job_that_saved(path))
    (tmp_path / "store" / FILE).symlink_to(precious)
    look_at_saves(tmp_path / "store")
    assert precious.read_text() == "mine"
    assert not (tmp_path / "store" / FILE).is_symlink()


def test_the_command_says_what_it_could_not_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = archive(tmp_path / "ckpt" / "step-1.pt")
    write_store(tmp_path / "store", job_that_saved(path))
    (tmp_path / "store" / FILE).mkdir()
    assert main([str(tmp_path / "store")]) == 3
    assert capsys.readouterr().err.startswith("slurm-io: cannot write")


@needs_fuse
@pytest.mark.fuse
def test_a_mount_that_hangs_costs_its_own_answer_only(tmp_path: Path) -> None:
    here = archive(tmp_path / "here" / "step-1.pt")
    archive(tmp_path / "backing" / "step-1.pt")
    with SlowFs(tmp_path / "backing", tmp_path / "mount") as slow:
        slow.change(hang_globs=("*",))
        began_s = time.monotonic()
        told = look(
            tmp_path / "store", job_that_saved(here, tmp_path / "mount" / "step-1.pt"), most_s=3.0
        )
        took_s = time.monotonic() - began_s
        slow.change(hang_globs=())
    by_path = {Path(one["path"]).name: one for one in told["folders"]}
    assert by_path["here"]["saves"][0]["state"] == "whole"
    assert "no answer within 3 s" in by_path["mount"]["reason"]
    assert took_s < 60
