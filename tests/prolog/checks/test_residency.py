"""The residency check: what a job is told of its dataset."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_io.config import DatasetConfig
from slurm_io.filesystems.residency.generic import BIG_BYTES
from slurm_io.host import run as host_run
from slurm_io.host.probe import probe
from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import CHECKS
from slurm_io.prolog.checks.residency import residency
from slurm_io.spec import JobSpec
from tests.filesystems.residency.stand_in_tools import install
from tests.labs.slowfs import SlowFs, fuse_missing
from tests.labs.slowfs_settings import SlowFsSettings
from tests.prolog.checks.job_context import context_for, proc_with_mounts

SAMPLES = Path(__file__).parents[2] / "fixtures" / "residency"
needs_fuse = [
    pytest.mark.fuse,
    pytest.mark.skipif(fuse_missing() is not None, reason=str(fuse_missing())),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "part").mkdir(parents=True)
    for name in ("a", "part/b", "part/released"):
        (folder / name).write_bytes(b"x" * 1000)
    return folder


@pytest.fixture(autouse=True)
def no_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    monkeypatch.setattr(host_run, "TOOL_FOLDERS", (os.fspath(folder),))
    return folder


def on(tmp_path: Path, data: Path, fstype: str) -> CheckResult:
    """The check's one result for `data` as a shared dataset on a file system of that type."""
    proc = proc_with_mounts(tmp_path / "proc", data=(data, fstype))
    (result,) = residency.run(context_for(DatasetConfig(shared=os.fspath(data)), proc_root=proc))
    json.dumps(result.to_dict())
    assert json.dumps(result.to_dict()).isascii()
    assert (result.check, result.kind, result.subject) == ("residency", "job", "c4")
    return result


def test_it_is_registered_as_the_users() -> None:
    found = CHECKS.get("residency")
    assert (found.identity, found.kind, found.policy) == ("user", "job", "warn")


def test_released_files_fail_the_job_with_the_way_out(
    tmp_path: Path, data: Path, no_tools: Path
) -> None:
    install(no_tools, "lfs")
    result = on(tmp_path, data, "lustre")
    assert result.answer == "FAIL"
    assert result.text.startswith("1 of 3 files (1.0 kB) of dataset 'c4' are in the archive only")
    assert "first read would block" in result.text
    assert result.commands == (f"lfs hsm_restore {data}/part/released",)
    assert result.facts["missing_bytes"] == 1000
    assert [row["path"] for row in result.facts["not_resident"]] == ["part/released"]


def test_partly_fetched_files_are_slow_not_wrong(
    tmp_path: Path, data: Path, no_tools: Path
) -> None:
    install(no_tools, "weka")
    (data / "part" / "released").rename(data / "partial")
    result = on(tmp_path, data, "wekafs")
    assert (result.answer, result.facts["missing_bytes"]) == ("DEGRADED", 750)
    assert result.commands == (f"weka fs tier fetch {data}/partial",)


def test_all_here_is_ok_when_a_tool_says_so(tmp_path: Path, data: Path, no_tools: Path) -> None:
    install(no_tools, "mmlsattr")
    (data / "part" / "released").unlink()
    result = on(tmp_path, data, "gpfs")
    assert result.answer == "OK"
    assert result.text == "all 2 files of dataset 'c4' are on the fast tier (mmlsattr)"


@pytest.mark.parametrize("fstype", ["gpfs", "wekafs", "lustre", "nfs4", "beegfs", "fuse.x", "new"])
def test_without_a_source_that_knows_it_is_unknown(tmp_path: Path, data: Path, fstype: str) -> None:
    result = on(tmp_path, data, fstype)
    assert result.answer == "UNKNOWN"
    assert result.text.startswith("it cannot be told of all files")
    assert len(result.text) > len("it cannot be told of all files: ")
    assert result.not_looked_at


@pytest.mark.parametrize("fstype", ["ext4", "xfs", "btrfs", "tmpfs"])
def test_local_disks_are_always_resident(tmp_path: Path, data: Path, fstype: str) -> None:
    result = on(tmp_path, data, fstype)
    assert result.answer == "OK"
    assert result.text == f"local file system ({fstype}): always resident"
    assert result.facts["source"] == "file system kind"


def test_a_local_file_full_of_holes_is_suspect(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (data / "hole").open("wb") as file:
        file.truncate(BIG_BYTES + 1)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 600)
    result = on(tmp_path, data, "xfs")
    assert (result.answer, result.facts["suspect_bytes"]) == ("DEGRADED", BIG_BYTES + 1)


def test_shared_data_is_the_leaders_local_data_everybodys(data: Path) -> None:
    path = os.fspath(data)
    assert residency.run(context_for(DatasetConfig(shared=path), leader=False)) == []
    assert residency.run(context_for(DatasetConfig(local=path), leader=False))
    assert residency.run(context_for(spec=JobSpec(ckpt="/x"))) == []


def test_a_dataset_the_site_does_not_have_is_unknown() -> None:
    (result,) = residency.run(context_for(spec=JobSpec(dataset="nope")))
    assert (result.answer, "no dataset 'nope'" in result.text) == ("UNKNOWN", True)


@pytest.mark.parametrize("path", ["/nonexistent/folder", "/etc/passwd"])
def test_a_folder_that_cannot_be_opened_is_unknown(path: str) -> None:
    (result,) = residency.run(context_for(DatasetConfig(local=path)))
    assert (result.answer, "cannot be read" in result.text) == ("UNKNOWN", True)


def test_an_empty_folder_is_not_ok(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    result = on(tmp_path, tmp_path / "data", "lustre")
    assert (result.answer, result.text) == ("UNKNOWN", "the dataset's folder holds no files")


def test_more_files_than_it_may_ask_for_are_not_ok(
    tmp_path: Path, data: Path, no_tools: Path
) -> None:
    install(no_tools, "mmlsattr")
    (data / "part" / "released").unlink()
    proc = proc_with_mounts(tmp_path / "proc", data=(data, "gpfs"))
    context = context_for(
        DatasetConfig(shared=os.fspath(data)), proc_root=proc, own={"files_max": 2}
    )
    (result,) = residency.run(context)
    assert result.answer == "UNKNOWN"
    assert result.not_looked_at == ("files beyond: more than 2 entries",)


def test_hostile_names_are_survived_and_shown_in_one_line(
    tmp_path: Path, data: Path, no_tools: Path
) -> None:
    install(no_tools, "lfs")
    for name in (b"-released\x1b[31m", b"released\n", b"released \xff", b"r" * 255):
        (data / os.fsdecode(name)).write_bytes(b"x")
    (data / "self").symlink_to("self")
    os.mkfifo(data / "fifo")
    (data / "up").symlink_to("..")
    deep = os.open(data, os.O_RDONLY)
    for _ in range(40):  # 40 x 101 characters: longer than any path may be
        os.mkdir("d" * 100, dir_fd=deep)
        inner = os.open("d" * 100, os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = inner
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=deep))
    os.close(deep)
    result = on(tmp_path, data, "lustre")
    assert result.answer == "FAIL"
    assert "\n" not in result.text
    assert [row["path"] for row in result.facts["not_resident"]] == ["part/released"]
    assert result.facts["counts"]["unknown"] == 7  # three names, two links, FIFO, too deep


class TestOnAFileSystemThatEvicts:
    pytestmark = needs_fuse

    @pytest.fixture
    def slow(self, tmp_path: Path) -> Iterator[SlowFs]:
        backing = tmp_path / "backing"
        backing.mkdir()
        for name in ("here", "gone"):
            (backing / name).write_bytes(b"x" * 1000)
        settings = SlowFsSettings(
            evicted_globs=("gone",),
            evicted_blocks=1,
            recall_latency_s=60.0,
            xattrs={
                glob: {"lustre.lov": (SAMPLES / f"xattr_{name}.bin").read_bytes().hex()}
                for glob, name in (("here", "v1_plain_4"), ("gone", "v1_released"))
            },
        )
        with SlowFs(backing, tmp_path / "mount", settings) as made:
            yield made

    def test_nothing_is_opened_or_recalled(self, tmp_path: Path, slow: SlowFs) -> None:
        result = on(tmp_path, slow.mountpoint, "lustre")
        assert (result.answer, result.facts["source"]) == ("FAIL", "lov xattr")
        classes = slow.ledger()["classes"]
        assert not any(classes.get(each, {}).get("count", 0) for each in ("read", "open"))

    def test_a_hung_mount_costs_its_child_only(self, tmp_path: Path, slow: SlowFs) -> None:
        proc = proc_with_mounts(tmp_path / "proc", data=(slow.mountpoint, "lustre"))
        context = context_for(DatasetConfig(shared=os.fspath(slow.mountpoint)), proc_root=proc)
        slow.change(hang_globs=("*",), hang_classes=("list",))
        answer = probe(lambda: [each.to_dict() for each in residency.run(context)], timeout_s=0.5)
        slow.change(hang_globs=())
        assert answer.state == "timed out"
