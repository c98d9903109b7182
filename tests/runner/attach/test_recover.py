"""What a killed attach leaves, and what bringing it home must and must not take away."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

from slurm_io.errors import UsageError
from slurm_io.model import JobIdentity, SamplerSpec
from slurm_io.runner.attach.place import AttachOptions, open_store, take
from slurm_io.runner.place import Place, give_back, make_ring_dir
from slurm_io.runner.recover import recover

JOB = JobIdentity("c", "12", 0, "u", os.getuid())
OPTIONS = AttachOptions(duration_s=30.0)


@pytest.fixture(autouse=True)
def _spools_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


def spec(ring_dir: Path | str = "", node: str = "n1", reads_along: bool = True) -> SamplerSpec:
    return SamplerSpec(
        job=JOB, node=node, mode="slurm", spool="", ring_dir=str(ring_dir),
        attached_by=os.getpid(), reads_along=reads_along,
    )  # fmt: skip


def killed(store: Path, told: SamplerSpec, joins: bool = False) -> Place:
    """The place of an attach that died before it delivered."""
    place = take(told, [store], OPTIONS, ("n1",), joins=joins)
    (place.spool / "meta.json").write_text(json.dumps({"node": told.node}))
    assert place.lock_fd is not None
    os.close(place.lock_fd)
    return place


def test_the_data_comes_home_and_the_spool_goes(tmp_path: Path) -> None:
    place = killed(tmp_path / "out", spec())
    assert recover(tmp_path / "out") == ["n1"]
    done = json.loads((tmp_path / "out/DONE.n1").read_text())
    assert done["missing"] == ["slurm-io attach was killed"]
    assert not place.spool.exists()


def test_each_nodes_part_of_a_job_is_found_by_its_own_file(tmp_path: Path) -> None:
    open_store(tmp_path / "out", JOB, ("n1", "n2"), OPTIONS)
    place = killed(tmp_path / "out", spec(), joins=True)
    assert recover(tmp_path / "out") == ["n1"]
    assert not place.spool.exists()


def test_rings_that_were_only_read_along_stay(tmp_path: Path) -> None:
    rings = make_ring_dir()
    try:
        (rings / "ring-1-1").write_text("of the running job")
        killed(tmp_path / "out", spec(rings))
        recover(tmp_path / "out")
        assert (rings / "ring-1-1").exists()
    finally:
        (rings / "ring-1-1").unlink()
        rings.rmdir()


def test_folders_of_a_loaded_hook_go(tmp_path: Path) -> None:
    base = make_ring_dir()
    (base / "rings").mkdir()
    (base / "rings/ring-1-1").write_text("")
    (base / "load-1.py").write_text("")
    killed(tmp_path / "out", spec(base / "rings", reads_along=False))
    recover(tmp_path / "out")
    assert not base.exists()


def test_a_store_in_which_nothing_was_recorded_is_given_back(tmp_path: Path) -> None:
    place = killed(tmp_path / "out", spec())
    give_back(place)
    assert not (tmp_path / "out").exists()


def test_only_the_nodes_that_a_store_waits_for_may_join(tmp_path: Path) -> None:
    open_store(tmp_path / "out", JOB, ("n1", "n2"), OPTIONS)
    with pytest.raises(UsageError, match="already holds a run"):
        take(spec(node="n3"), [tmp_path / "out"], OPTIONS, ("n1", "n2"), joins=True)
    for number in (1, 2):
        place = take(spec(node=f"n{number}"), [tmp_path / "out"], OPTIONS, ("n1", "n2"), joins=True)
        assert place.nodes == ("n1", "n2")
    assert sorted(path.name for path in (tmp_path / "out").glob("job*")) == [
        "job.json",
        "job.n1.json",
        "job.n2.json",
    ]
