"""Which devices lie below a mount: RAID over partitions, btrfs, overlays, loop files, dm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slurm_io.filesystems.below import Below, below
from slurm_io.filesystems.block_devices import BlockDevices
from slurm_io.filesystems.disk_state import disk_life, dm_is_suspended, whole_disks
from slurm_io.filesystems.mounts import read_mounts
from tests.filesystems.node_trees import NodeTree, gpu_node

FIXTURES = Path(__file__).parents[1] / "fixtures/node_checks"


def below_path(tree: NodeTree, path: str) -> Below:
    mounts = read_mounts(tree.proc)
    mount = mounts.of_path(path)
    assert mount is not None
    return below(mount, mounts, str(tree.sys), BlockDevices(tree.sys))


def test_raid_0_over_partitions_of_eight_drives(tmp_path: Path) -> None:
    tree = gpu_node(tmp_path)
    tree.mount("/raid", "9:0", "ext4", "/dev/md0")
    found = below_path(tree, "/raid/data")
    assert found.tops == ("md0",)
    assert found.disks == tuple(f"nvme{number}n1" for number in range(8))
    assert len(found.all) == 17


def test_the_raid_of_the_lsblk_sample_is_one_device_below_eight_drives(tmp_path: Path) -> None:
    """The sample lists md0 once below each drive: here it is one device with eight disks."""
    listed = json.loads((FIXTURES / "lsblk_gpu_node_raid0_over_8_nvme.json").read_text())
    holders: dict[str, list[str]] = {}

    def walk(device: dict[str, Any], above: str) -> None:
        for child in device.get("children", ()):
            walk(child, device["name"])
        if device["type"].startswith("raid"):
            holders.setdefault(device["name"], []).append(above)

    for device in listed["blockdevices"]:
        walk(device, "")
    tree = gpu_node(tmp_path)
    tree.mount("/raid", "9:0", "ext4", "/dev/md0")
    assert holders == {"md0": [f"nvme{number}n1p1" for number in range(8)]}
    assert below_path(tree, "/raid").all[1:9] == tuple(holders["md0"])


def test_members_of_the_procfs_sample_are_found_without_slaves(tmp_path: Path) -> None:
    """paths_dm_md.txt lists md devices that have md/dev-<member> but no slaves folder."""
    tree = NodeTree(tmp_path)
    for line in (FIXTURES.parent / "host/sysfs/paths_dm_md.txt").read_text().split():
        tree.file(tmp_path / line, "")
    for name, members in (("md0", ["sdg", "sdh"]), ("dm-1", ["sdb", "sdc"])):
        tree.mount(f"/{name}", "0:99", "ext4", f"/dev/{name}")
        (tree.sys / "class/block" / name).symlink_to(tree.sys / "block" / name)
        assert below_path(tree, f"/{name}") == Below((name,), (name, *members), tuple(members))


def test_a_btrfs_of_two_drives(tmp_path: Path) -> None:
    tree = gpu_node(tmp_path, drives=2)
    tree.mount("/data", "0:51", "btrfs", "/dev/nvme0n1")
    for name in ("nvme0n1", "nvme1n1"):
        tree.file(tree.sys / "fs/btrfs/8d5a/devices" / name, "")
    assert below_path(tree, "/data").disks == ("nvme0n1", "nvme1n1")


def test_overlay_and_loop_lead_to_the_disk_they_lie_on(tmp_path: Path) -> None:
    tree = gpu_node(tmp_path, drives=2)
    tree.mount("/raid", "9:0", "ext4", "/dev/md0")
    tree.mount("/merged", "0:60", "overlay", "overlay", super_options="rw,upperdir=/raid/up")
    tree.disk("loop0", "7:0")
    tree.file(tree.sys / "block/loop0/loop/backing_file", "/raid/data.sqfs\n")
    tree.mount("/sqfs", "7:0", "squashfs", "/dev/loop0", options="ro", super_options="ro")
    assert below_path(tree, "/merged").tops == ("md0",)
    assert below_path(tree, "/sqfs").tops == ("loop0", "md0")


def test_lvm_by_its_mapper_name(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path)
    tree.disk("sdb", "8:16")
    tree.stack("dm-0", "253:0", ["sdb"], dm__name="vg-data", dm__suspended="1")
    tree.mount("/data", "0:70", "xfs", "/dev/mapper/vg-data")
    assert below_path(tree, "/data") == Below(("dm-0",), ("dm-0", "sdb"), ("sdb",))
    assert dm_is_suspended(str(tree.sys), "dm-0")


def test_network_and_memory_have_no_devices(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path)
    tree.mount("/scratch", "0:40", "lustre", "10.0.0.1@o2ib:/scratch")
    tree.mount("/dev/shm", "0:41", "tmpfs", "tmpfs")
    assert below_path(tree, "/scratch") == below_path(tree, "/dev/shm") == Below()


def test_the_kernels_word_for_a_disk(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path)
    for number, state in enumerate(("live", "resetting", "deleting (no IO)", "offline", "")):
        tree.disk(f"sd{'bcdef'[number]}", f"8:{16 * (number + 1)}", state=state)
    lives = [disk_life(str(tree.sys), f"sd{letter}")[0] for letter in "bcdefz"]
    assert lives == ["alive", "troubled", "dead", "dead", "unknown", "dead"]
    assert whole_disks(str(tree.sys)) == ["sdb", "sdc", "sdd", "sde", "sdf"]


def test_volumes_that_stand_on_one_another_in_circles_come_to_an_end(tmp_path: Path) -> None:
    """No kernel lets that be; without an end 24 of them would be 24 to the power of 8."""
    tree = NodeTree(tmp_path)
    names = [f"dm-{number}" for number in range(24)]
    for number, name in enumerate(names):
        tree.stack(name, f"253:{number}", names, dm__name=f"v{number}")
    tree.mount("/v", "253:0", "ext4", "/dev/mapper/v0")
    assert set(below_path(tree, "/v").all) == set(names)
    assert BlockDevices(tree.sys).leaf_disks("dm-0") == ()
