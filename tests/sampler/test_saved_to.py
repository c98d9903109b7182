"""Where checkpoints went is learnt by name from the mount table, and from nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_io.sampler.saved_to import SavedTo
from slurm_io.store.schema import TABLES

MOUNTINFO = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:50 / /scratch rw - lustre mgs:/fs rw
31 30 0:51 / /scratch/deep rw - nfs4 srv:/deep rw
"""


def event(kind: str, path: object) -> tuple[object, ...]:
    given = {"kind": kind, "path": path}
    return tuple(given.get(name) for name in TABLES["events"].column_names())


@pytest.fixture
def saved_to(tmp_path: Path) -> SavedTo:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mountinfo").write_text(MOUNTINFO)
    return SavedTo(tmp_path)


def test_the_innermost_mount_of_each_checkpoint(saved_to: SavedTo) -> None:
    saved_to.note([event("ckpt_save", "/scratch/a/1.pt"), event("ckpt_background", "/home/x.pt")])
    saved_to.note([event("ckpt_async", "/scratch/deep/2.pt"), event("ckpt_save", "/scratch/3.pt")])
    assert saved_to.mounts == ["/", "/scratch", "/scratch/deep"]


def test_other_events_and_saves_without_a_path_say_nothing(saved_to: SavedTo) -> None:
    saved_to.note([event("load", "/scratch/a"), event("ckpt_save", None), event("gc", None)])
    assert saved_to.mounts == []


@pytest.mark.parametrize(
    "path", ["", "relative/x.pt", "../../x", "/scratch/../etc", "\0", "x" * 9000]
)
def test_odd_paths_name_mounts_of_the_table_only(saved_to: SavedTo, path: str) -> None:
    saved_to.note([event("ckpt_save", path)])
    assert set(saved_to.mounts) <= {"/", "/scratch", "/scratch/deep"}


def test_a_job_cannot_make_it_watch_without_end(tmp_path: Path) -> None:
    lines = [f"{n} 22 0:{n} / /m{n} rw - nfs4 srv:/{n} rw" for n in range(100, 150)]
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mountinfo").write_text("\n".join(lines) + "\n")
    saved = SavedTo(tmp_path)
    saved.note([event("ckpt_save", f"/m{n}/x.pt") for n in range(100, 150)])
    assert len(saved.mounts) == 8
