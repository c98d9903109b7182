"""The check of arrays: RAID and disks below dataset and spool, what the admin names, the rest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_io.config import Config, DatasetConfig
from slurm_io.errors import ConfigError
from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import CHECKS, CheckContext
from slurm_io.spec import JobSpec
from tests.filesystems.node_trees import NodeTree, gpu_node


def context(tree: NodeTree, arrays: tuple[str, ...], serials: tuple[str, ...]) -> CheckContext:
    config = Config(spool_dir="/var/spool/slurm_io", datasets={"c4": DatasetConfig("/raid/c4")})
    return CheckContext(
        "node1", config, JobSpec(dataset="c4"), 2.0, "user1", os.getuid(), os.getgid(),
        own={"arrays": list(arrays), "serials": list(serials)},
        proc_root=str(tree.proc), sys_root=str(tree.sys),
    )  # fmt: skip


def results(
    tree: NodeTree, *arrays: str, serials: tuple[str, ...] = ()
) -> dict[str | None, CheckResult]:
    found = CHECKS.get("arrays").run(context(tree, arrays, serials))
    for result in found:
        assert result.text.isprintable() and CheckResult.from_dict(result.to_dict()) == result
        assert result.kind == "node"
    return {result.subject: result for result in found}


@pytest.fixture
def tree(tmp_path: Path) -> NodeTree:
    tree = gpu_node(tmp_path)
    tree.mount("/raid", "9:0", "ext4", "/dev/md0")
    return tree


def test_a_whole_raid_0(tree: NodeTree) -> None:
    found = results(tree, "/raid level=raid0 members=8", serials=("S60000", "S60007"))
    assert {subject: result.answer for subject, result in found.items()} == {
        "md0": "OK",
        "serials": "OK",
    }
    assert found["md0"].facts["serials"] == [f"S6{number:04}" for number in range(8)]


def test_a_raid_0_that_lost_a_drive_fails_and_names_it(tree: NodeTree) -> None:
    tree.lose("nvme3n1p1")
    found = results(tree)
    assert found["md0"].answer == "FAIL"
    assert "nvme3n1p1" in found["md0"].text and "dataset c4" in found["md0"].text


def test_a_drive_that_the_kernel_calls_dead(tree: NodeTree) -> None:
    tree.file(tree.sys / "block/nvme5n1/device/state", "dead\n")
    result = results(tree)["nvme5n1"]
    assert result.answer == "FAIL" and "S60005" in result.text


def test_a_drive_that_resets_just_now_is_degraded(tree: NodeTree) -> None:
    tree.file(tree.sys / "block/nvme5n1/device/state", "resetting\n")
    assert results(tree)["nvme5n1"].answer == "DEGRADED"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/raid level=raid1", "is raid0 (md0), not raid1"),
        ("/raid members=9", "has 8 members (md0), not 9"),
        ("md7", "has no md array"),
        ("/other level=raid0", "has no md array"),
    ],
)
def test_another_array_than_the_admin_said(tree: NodeTree, line: str, said: str) -> None:
    result = results(tree, line)[line.split()[0]]
    assert result.answer == "FAIL" and said in result.text


def test_a_listed_serial_that_is_not_there(tree: NodeTree) -> None:
    result = results(tree, serials=("S60000", "GONE1"))["serials"]
    assert (result.answer, result.facts["missing"]) == ("FAIL", ["GONE1"])


def test_a_rebuild_makes_reads_slower(tree: NodeTree) -> None:
    tree.mdstat(
        "md0 : active raid1 nvme1n1p1[2] nvme0n1p1[0]",
        "      1000 blocks super 1.2 [2/1] [U_]",
        "      [=>....]  recovery =  8.5% (85/1000) finish=17.0min speed=259783K/sec",
    )
    result = results(tree)["md0"]
    assert (result.answer, result.facts["done_share"]) == ("DEGRADED", 0.085)
    assert "lacks 1 of 2" in result.text and "17 min to go" in result.text


def test_an_array_of_nobody_is_degraded_at_most(tree: NodeTree) -> None:
    text = (tree.proc / "mdstat").read_text()
    tree.file(tree.proc / "mdstat", text.replace("unused", "md9 : inactive sdy[0](S)\nunused"))
    found = results(tree)
    assert found["md9"].answer == "DEGRADED" and "holds nothing of this job" in found["md9"].text


def test_a_suspended_volume_holds_back_all_io(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path)
    tree.disk("sdb", "8:16", state="running")
    tree.stack("dm-0", "253:0", ["sdb"], dm__name="vg-raid", dm__suspended="1", dm__uuid="LVM-1")
    tree.mount("/raid", "253:0", "xfs", "/dev/mapper/vg-raid")
    result = results(tree)["dm-0"]
    assert result.answer == "FAIL" and "vg-raid is suspended" in result.text


def test_a_volume_without_its_disk_fails_and_one_with_a_path_left_does_not(tmp_path: Path) -> None:
    for number, (uuid, answer) in enumerate((("LVM-1", "FAIL"), ("mpath-36", "DEGRADED"))):
        tree = NodeTree(tmp_path / str(number))
        tree.disk("sdb", "8:16", state="running")
        tree.disk("sdc", "8:32", state="running")
        tree.stack("dm-0", "253:0", ["sdb", "sdc"], dm__name="data", dm__uuid=uuid)
        tree.mount("/raid", "253:0", "xfs", "/dev/mapper/data")
        tree.lose("sdc")
        assert results(tree)["dm-0"].answer == answer


def test_plain_disks_are_named_and_no_disk_is_nothing(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path / "a")
    tree.disk("sda", "8:0", state="running", partitions=1)
    (found,) = results(tree).values()
    assert (found.answer, found.facts["disks"]) == ("OK", ["sda"])
    assert results(NodeTree(tmp_path / "b")) == {}


def test_unreadable_mdstat_is_unknown(tree: NodeTree) -> None:
    (tree.proc / "mdstat").unlink()
    assert [result.answer for result in results(tree).values()] == ["UNKNOWN"]


def test_a_bad_setting_names_itself(tree: NodeTree) -> None:
    with pytest.raises(ConfigError, match=r"check\.arrays\.arrays"):
        results(tree, "/raid level=raid7")
