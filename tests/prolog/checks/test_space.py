"""The space check: forecasts on real file systems, case E02, mounts that hang."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_io.config import DatasetConfig
from slurm_io.errors import ConfigError
from slurm_io.filesystems.bounded_walk import BoundedWalk, Entry
from slurm_io.filesystems.capacity import Capacity
from slurm_io.filesystems.sizes import parse_size
from slurm_io.filesystems.sources import kind_of_source
from slurm_io.host.probe import probe
from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import CHECKS
from slurm_io.prolog.checks.space import space
from slurm_io.prolog.space_forecast import Need, Space, judge_minimum, judge_needs
from slurm_io.prolog.space_measures import measure_dataset
from slurm_io.spec import JobSpec
from slurm_io.staging.manifest.content_id import content_id_of
from slurm_io.staging.manifest.files import write_manifest
from slurm_io.staging.manifest.model import FileEntry, Header, Manifest
from tests.labs.slowfs import SlowFs, fuse_missing
from tests.labs.slowfs_settings import SlowFsSettings
from tests.prolog.checks.job_context import context_for, proc_with_mounts

CASE = Path(__file__).parents[2] / "fixtures" / "cases" / "E02"
HUGE_BYTES = 10**18
needs_fuse = [
    pytest.mark.fuse,
    pytest.mark.skipif(fuse_missing() is not None, reason=str(fuse_missing())),
]


def checked(**told: Any) -> list[CheckResult]:
    results = space.run(context_for(**told))
    for result in results:
        json.dumps(result.to_dict())
        json.dumps(result.to_dict())
        assert (result.check, "\n" in result.text) == ("space", False)
    return results


def ckpt(path: Path | str) -> JobSpec:
    return JobSpec(ckpt=os.fspath(path))


def test_it_is_registered_as_the_users() -> None:
    found = CHECKS.get("space")
    assert (found.identity, found.scope, found.policy) == ("user", "node", "warn")


# --- case E02 -----------------------------------------------------------------------------------


def df_spaces() -> dict[str, Space]:
    """Each line of the case's df -h; its T are powers of 1024, rounded."""
    spaces = {}
    for line in (CASE / "df.txt").read_text().splitlines()[1:]:
        source, size, used, avail, _, point = line.split()
        numbers = [parse_size(f"{text}i" if text != "0" else text) for text in (size, used, avail)]
        kind = kind_of_source(source)
        capacity = Capacity(*(each and each.size_bytes for each in numbers), None, None)
        spaces[point] = Space(point, kind, kind, capacity)
    return spaces


def test_e02_the_job_that_needs_20_tb_fails_and_no_node() -> None:
    answer = json.loads((CASE / "expected.json").read_text())["answer"]["nfs_global"]
    found = df_spaces()["/nfs_global"]
    need = Need("the next checkpoint", 20 * 10**12, 1, "as the site expects")
    result = judge_needs(found, [need])
    assert (result.answer, result.kind) == (answer["answer"], answer["kind"]) == ("FAIL", "job")
    assert found.capacity.avail_bytes == pytest.approx(answer["avail_about_bytes"], rel=0.04)
    assert result.text == (
        "20.0 TB needed for the next checkpoint but 14.3 TB free on /nfs_global (nfs): "
        "free space first"
    )
    assert "quota" in result.facts["size_is"]


def test_e02_other_mounts_however_full_are_not_the_checks_business() -> None:
    need = Need("the next checkpoint", 10**9, 1, "")
    for point in ("/home", "/share/collab/codemodel", "/nfs_global", "/workspace"):
        assert judge_needs(df_spaces()[point], [need]).answer == "OK"


def test_a_full_server_is_never_the_nodes_fault() -> None:
    for found in df_spaces().values():
        result = judge_minimum(found, HUGE_BYTES, 0)
        node = found.kind == "local"
        assert (result.answer, result.kind) == ("FAIL", "node" if node else "shared")


# --- the forecast -------------------------------------------------------------------------------

SPACE = Space("/ck", "lustre", "lustre", Capacity(10_000, 9_000, 1_000, 100, 10))


def needs(*sizes: int | None, files: int = 1, later_bytes: int = 0) -> list[Need]:
    return [
        Need(f"n{number}", size, files, "why", later_bytes) for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (needs(1000), "OK"),
        (needs(1001), "FAIL"),
        (needs(500, 501), "FAIL"),
        (needs(1, files=10), "OK"),
        (needs(1, files=11), "FAIL"),
        (needs(None), "UNKNOWN"),
        (needs(None, 1001), "FAIL"),
        (needs(500, later_bytes=500), "OK"),
        (needs(500, later_bytes=501), "DEGRADED"),
    ],
)
def test_needs_against_what_is_left(asked: list[Need], answer: str) -> None:
    result = judge_needs(SPACE, asked)
    assert (result.answer, result.kind) == (answer, "job")


def test_nothing_free_fails_whatever_is_needed() -> None:
    full = SPACE._replace(capacity=Capacity(10_000, 10_000, 0, 100, 10))
    assert judge_needs(full, needs(None)).answer == "FAIL"


def test_no_inode_count_is_not_no_inodes() -> None:
    btrfs = SPACE._replace(capacity=Capacity(10_000, 9_000, 1_000, None, None))
    result = judge_needs(btrfs, needs(10))
    assert result.answer == "OK"
    assert "inodes: the file system does not count them" in result.not_looked_at
    assert judge_minimum(btrfs, 0, 10).answer == "UNKNOWN"


def test_a_file_system_that_gives_no_numbers_is_unknown() -> None:
    silent = SPACE._replace(capacity=Capacity(None, None, None, None, None))
    assert judge_needs(silent, needs(10)).answer == "UNKNOWN"
    assert judge_minimum(silent, 10, 0).answer == "UNKNOWN"


@pytest.mark.parametrize(
    ("least", "answer"), [((1000, 10), "OK"), ((1001, 0), "FAIL"), ((0, 11), "FAIL")]
)
def test_what_the_site_wants_free(least: tuple[int, int], answer: str) -> None:
    assert judge_minimum(SPACE._replace(kind="local"), *least).answer == answer


# --- on the file systems of this machine --------------------------------------------------------


def put(path: Path, size_bytes: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size_bytes)


def test_the_next_checkpoint_is_as_large_as_the_newest(tmp_path: Path) -> None:
    put(tmp_path / "step100" / "model.pt", 1000)
    (result,) = checked(spec=ckpt(tmp_path))
    assert (result.answer, result.kind, result.subject) == ("OK", "job", os.fspath(tmp_path))
    (need,) = result.facts["needs"]
    assert (need["size_bytes"], need["files"]) == (1000, 1)
    (result,) = checked(spec=ckpt(tmp_path), own={"growth": 1.5})
    assert result.facts["needs"][0]["size_bytes"] == 1500


def test_a_checkpoint_that_does_not_fit_fails_the_job(tmp_path: Path) -> None:
    own = {"expect_checkpoint_bytes": HUGE_BYTES}
    (result,) = checked(spec=ckpt(tmp_path / "not" / "there" / "yet"), own=own)
    assert (result.answer, result.kind) == ("FAIL", "job")
    assert "1.0 EB needed for the next checkpoint" in result.text


def test_more_checkpoints_than_fit_are_told_before(tmp_path: Path) -> None:
    free_bytes = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    own = {"expect_checkpoint_bytes": free_bytes // 3, "keep_n": 5}
    (result,) = checked(spec=ckpt(tmp_path), own=own)
    assert result.answer == "DEGRADED"
    for number in range(5):
        put(tmp_path / f"step{number}" / "model.pt", 1000)
    (result,) = checked(spec=ckpt(tmp_path), own=own)
    assert result.answer == "OK"  # each new one takes the place of an old one, but the next


def test_without_any_checkpoint_the_need_is_unknown(tmp_path: Path) -> None:
    (result,) = checked(spec=ckpt(tmp_path))
    assert result.answer == "UNKNOWN"
    assert "no complete checkpoint is there yet" in result.text


def test_a_job_that_asked_for_nothing_gets_no_result(tmp_path: Path) -> None:
    assert checked() == []
    spec = JobSpec(ckpt=os.fspath(tmp_path), check="off")
    assert checked(spec=spec) == []
    assert len(checked(spec=spec, own={"min_free_bytes": ["/=1"]})) == 1


def manifest_of(path: Path, total_bytes: int) -> str:
    entries = [FileEntry("a", 1000), FileEntry("b", total_bytes - 1000)]
    header = Header("c4", content_id_of(entries), len(entries), total_bytes)
    write_manifest(os.fspath(path), Manifest(header, entries))
    return os.fspath(path)


def local_dataset(tmp_path: Path, total_bytes: int) -> DatasetConfig:
    manifest = manifest_of(tmp_path / "manifest.jsonl", total_bytes)
    return DatasetConfig(local=os.fspath(tmp_path / "data"), manifest=manifest)


def test_the_rest_of_a_dataset_is_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_bytes(os.urandom(1000))
    (result,) = checked(dataset=local_dataset(tmp_path, HUGE_BYTES))
    assert (result.answer, result.kind) == ("FAIL", "job")
    (need,) = result.facts["needs"]
    assert (need["size_bytes"], need["files"]) == (HUGE_BYTES - 1000, 1)
    assert "for the rest of the dataset" in result.text


def test_a_file_that_goes_while_it_is_counted_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = local_dataset(tmp_path, 6000)
    (tmp_path / "data").mkdir()
    for number in range(10):
        (tmp_path / "data" / f"a{number}").write_bytes(os.urandom(600))
    walk = BoundedWalk.__iter__

    def without_the_first(self: BoundedWalk) -> Iterator[Entry]:
        for number, found in enumerate(walk(self)):
            if number == 0:
                (tmp_path / "data" / found.path).unlink()
            yield found

    monkeypatch.setattr(BoundedWalk, "__iter__", without_the_first)
    assert dataset.manifest is not None
    found = measure_dataset(str(tmp_path / "data"), dataset.manifest, 5.0, count_blocks=False)
    assert (found["there_bytes"], found["there_files"], found["cut"]) == (5400, 9, "")


def test_a_dataset_that_is_all_there_needs_nothing(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_bytes(os.urandom(1000))
    (tmp_path / "data" / "b").write_bytes(os.urandom(5000))
    assert checked(dataset=local_dataset(tmp_path, 6000)) == []


def test_a_dataset_that_is_not_there_at_all_needs_all(tmp_path: Path) -> None:
    (result,) = checked(dataset=local_dataset(tmp_path, 6000))
    assert (result.answer, result.facts["needs"][0]["size_bytes"]) == ("OK", 6000)


def test_needs_on_one_file_system_add_up(tmp_path: Path) -> None:
    free_bytes = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    share_bytes = int(free_bytes * 0.6)
    spec = JobSpec(dataset="c4", ckpt=os.fspath(tmp_path / "ckpt"))
    (result,) = checked(
        dataset=local_dataset(tmp_path, share_bytes),
        spec=spec,
        own={"expect_checkpoint_bytes": share_bytes},
    )
    assert result.answer == "FAIL"
    assert "the next checkpoint and the rest of the dataset" in result.text


def test_a_manifest_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    dataset = DatasetConfig(local=os.fspath(tmp_path), manifest=os.fspath(tmp_path / "missing"))
    (result,) = checked(dataset=dataset)
    assert (result.answer, "cannot be read" in result.text) == ("UNKNOWN", True)


def test_a_folder_the_user_may_not_look_into_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (result,) = checked(spec=ckpt(tmp_path / "loop"), own={"expect_checkpoint_bytes": 1})
    assert (result.answer, result.kind) == ("UNKNOWN", "job")
    assert "Too many levels of symbolic links" in result.text


def test_named_mounts_are_the_nodes_affair(tmp_path: Path) -> None:
    own = {"min_free_bytes": [f"{tmp_path}=1kB"], "min_free_files": [f"{tmp_path}=1"]}
    proc = proc_with_mounts(tmp_path / "proc", data=(tmp_path, "xfs"))
    (result,) = checked(own=own, proc_root=proc)
    assert result.kind == "node"
    assert (result.facts["min_free_bytes"], result.facts["min_free_files"]) == (1000, 1)
    own = {"min_free_bytes": [f"{tmp_path}=900PB"]}
    (result,) = checked(own=own, proc_root=proc)
    assert (result.answer, result.kind) == ("FAIL", "node")
    shared = proc_with_mounts(tmp_path / "proc2", data=(tmp_path, "nfs4"))
    (result,) = checked(own=own, proc_root=shared)
    assert (result.answer, result.kind) == ("FAIL", "shared")


@pytest.mark.parametrize("text", ["/tmp", "tmp=1", "/tmp=", "/tmp=-1", "/tmp=1 apple", "=1"])
def test_settings_that_cannot_be_read_say_so(text: str) -> None:
    with pytest.raises(ConfigError, match="min_free_bytes"):
        checked(own={"min_free_bytes": [text]})


def test_shared_checkpoints_are_the_leaders_local_ones_everybodys(tmp_path: Path) -> None:
    proc = proc_with_mounts(tmp_path / "proc", data=(tmp_path, "lustre"))
    assert checked(spec=ckpt(tmp_path), leader=False, proc_root=proc) == []
    assert len(checked(spec=ckpt(tmp_path), leader=True, proc_root=proc)) == 1
    local = proc_with_mounts(tmp_path / "proc2", data=(tmp_path, "ext4"))
    assert len(checked(spec=ckpt(tmp_path), leader=False, proc_root=local)) == 1


class TestMountsThatMisbehave:
    pytestmark = needs_fuse

    @pytest.fixture
    def slow(self, tmp_path: Path) -> Iterator[SlowFs]:
        with SlowFs(tmp_path / "backing", tmp_path / "mount", attr_timeout_s=0.0) as made:
            yield made

    def test_one_that_hangs_does_not_hide_the_others(self, tmp_path: Path, slow: SlowFs) -> None:
        slow.change(SlowFsSettings(hang_globs=("*",), hang_classes=("statfs",)))
        began_s = time.monotonic()
        own = {
            "min_free_bytes": [f"{slow.mountpoint}=1", "/=1"],
            "expect_checkpoint_bytes": HUGE_BYTES,
        }
        results = checked(own=own, spec=ckpt(tmp_path), budget_s=1.0)
        took_s = time.monotonic() - began_s
        slow.change(SlowFsSettings())
        assert [each.answer for each in results] == ["UNKNOWN", "OK", "FAIL"]
        assert os.fspath(slow.mountpoint) in results[0].text
        assert "no answer within" in results[0].text
        assert took_s < 1.5

    def test_a_full_one_fails_whatever_is_needed(self, slow: SlowFs) -> None:
        slow.change(no_space=True)
        (result,) = checked(spec=ckpt(slow.mountpoint))
        assert (result.answer, result.kind) == ("FAIL", "job")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_folder_another_user_may_not_enter_is_not_measured_from_above(tmp_path: Path) -> None:
    """The folder above may lie on another file system: its room says nothing."""
    tmp_path.chmod(0o700)
    context = context_for(spec=ckpt(tmp_path / "inner"), own={"expect_checkpoint_bytes": 1})

    def as_nobody() -> list[dict[str, Any]]:
        os.setuid(65534)
        return [each.to_dict() for each in space.run(context)]

    (result,) = probe(as_nobody, timeout_s=5).value
    assert (result["answer"], "Permission denied" in result["text"]) == ("UNKNOWN", True)
