"""The look at what a job saved, by the finisher, as the job's user: the report and the attacks."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.labs.slurmd_room import SlurmdRoom
from tests.staging.checkpoints.made import archive, cut, grow_old

pytestmark = pytest.mark.root
QUICK = "[epilog]\ngrace_s = 0\nsampler_stop_s = 3\n"


def owned(room: SlurmdRoom, folder: Path) -> Path:
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, room.uid, room.gid, follow_symlinks=False)
    return folder


def torn_checkpoints(room: SlurmdRoom) -> Path:
    folder = room.root / "ckpt"
    archive(folder / "step-1.pt")
    cut(archive(folder / "step-2.pt"), 30)
    grow_old(folder)
    later_s = (folder / "step-2.pt").stat().st_mtime + 60
    os.utime(folder / "step-2.pt", (later_s, later_s))
    return owned(room, folder)


def finish(room: SlurmdRoom, folder: Path) -> dict[str, Any]:
    """A job that asked for `folder`, to its end; what the look said of it."""
    room.write_config(QUICK)
    room.prolog(SLURM_JOB_COMMENT=f"slurm-io: ckpt={folder}")
    room.wait_for_sampler()
    room.epilog()
    room.wait_for_log("analysed")
    told = json.loads((room.root / "work" / "slurm-io-7" / "checkpoints.json").read_text())
    [series] = told["folders"]
    return dict(series)


def test_a_torn_checkpoint_is_in_the_report(room: SlurmdRoom) -> None:
    series = finish(room, torn_checkpoints(room))
    assert [one["state"] for one in series["saves"]] == ["broken", "whole"]
    path = room.root / "work" / "slurm-io-7" / "checkpoints.json"
    assert (path.stat().st_uid, path.stat().st_mode & 0o077) == (room.uid, 0)
    report = (room.root / "work" / "slurm-io-7.txt").read_text()
    assert "F13" in report
    assert "step-1.pt" in report


def test_root_sees_no_more_than_the_user(room: SlurmdRoom) -> None:
    folder = torn_checkpoints(room)
    os.chown(folder, 0, 0)
    folder.chmod(0o700)
    series = finish(room, folder)
    assert series["saves"] == []
    assert series["reason"] == "Permission denied"


def test_roots_file_behind_a_link_is_not_read(room: SlurmdRoom) -> None:
    secret = archive(room.root / "root-only" / "step-9.pt")
    secret.parent.chmod(0o700)
    folder = torn_checkpoints(room)
    (folder / "step-9.pt").symlink_to(secret)
    os.mkfifo(folder / "step-8.pt")
    series = finish(room, owned(room, folder))
    assert {one["step"] for one in series["saves"]} == {1, 2}


def test_a_planted_link_in_the_place_of_the_answer(room: SlurmdRoom) -> None:
    victim = room.root / "victim"
    victim.write_text("kept")
    store = room.root / "work" / "slurm-io-7"
    folder = torn_checkpoints(room)
    room.write_config(QUICK)
    room.prolog(SLURM_JOB_COMMENT=f"slurm-io: ckpt={folder}")
    room.wait_for_sampler()
    store.mkdir(mode=0o700)
    (store / "checkpoints.json").symlink_to(victim)
    owned(room, store)
    room.epilog()
    room.wait_for_log("analysed")
    assert victim.read_text() == "kept"
    assert not (store / "checkpoints.json").is_symlink()
