"""The devices whose counters add up to a mount's I/O, every byte once."""

from __future__ import annotations

from pathlib import Path

from slurm_io.filesystems.block_devices import BlockDevices
from slurm_io.filesystems.mount_leaves import MountLeaves
from tests.filesystems.node_trees import NodeTree, gpu_node


def look(tree: NodeTree, *pids: int) -> MountLeaves:
    leaves = MountLeaves(tree.proc, tree.sys, BlockDevices(tree.sys))
    leaves.look(pids)
    return leaves


def test_a_gpu_node_raid_over_partitions_of_eight_drives(tmp_path: Path) -> None:
    tree = gpu_node(tmp_path)
    tree.mount("/raid", "9:0", "ext4", "/dev/md0")
    found = look(tree)
    assert found.disks == {
        "/": ("sda",), "/raid": tuple(f"nvme{number}n1" for number in range(8)),
    }  # fmt: skip
    assert found.device == {"/": "sda1", "/raid": "md0"}


def test_lvm_on_raid_and_a_bind_mount_of_it(tmp_path: Path) -> None:
    tree = gpu_node(tmp_path, drives=2)
    tree.stack("dm-0", "253:0", ["md0"], dm__name="vg-data")
    tree.mount("/data", "253:0", "xfs", "/dev/mapper/vg-data")
    tree.mount("/home/ada/set", "253:0", "xfs", "/dev/mapper/vg-data", root="/set")
    found = look(tree)
    assert found.disks["/data"] == found.disks["/home/ada/set"] == ("nvme0n1", "nvme1n1")
    assert found.device["/data"] == "dm-0"


def test_a_loop_devices_bytes_are_those_of_the_disk_its_file_lies_on(tmp_path: Path) -> None:
    tree = gpu_node(tmp_path, drives=2)
    tree.mount("/raid", "9:0", "ext4", "/dev/md0")
    tree.disk("loop0", "7:0")
    tree.file(tree.sys / "block/loop0/loop/backing_file", "/raid/data.sqfs\n")
    tree.mount("/sqfs", "7:0", "squashfs", "/dev/loop0")
    assert look(tree).disks["/sqfs"] == ("nvme0n1", "nvme1n1")


def test_a_loop_device_over_network_or_memory_is_the_leaf_itself(tmp_path: Path) -> None:
    tree = gpu_node(tmp_path, drives=2)
    tree.mount("/scratch", "0:50", "lustre", "10.0.0.1@o2ib:/scratch")
    tree.disk("loop0", "7:0")
    tree.file(tree.sys / "block/loop0/loop/backing_file", "/scratch/data.sqfs\n")
    tree.mount("/sqfs", "7:0", "squashfs", "/dev/loop0")
    found = look(tree).disks
    assert found["/sqfs"] == ("loop0",)
    assert "/scratch" not in found


def test_cciss_names_with_their_slash(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path)
    tree.disk("cciss!c0d0", "104:0", partitions=1)
    tree.mount("/old", "104:1", "ext3", "/dev/cciss/c0d0p1")
    found = look(tree)
    assert (found.device["/old"], found.disks["/old"]) == ("cciss/c0d0p1", ("cciss/c0d0",))


def test_network_memory_and_pseudo_file_systems_have_none(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path)
    for number, fstype in enumerate(["nfs4", "lustre", "tmpfs", "proc", "cgroup2", "ceph"]):
        tree.mount(f"/{fstype}", f"0:{60 + number}", fstype, "x")
    assert set(look(tree).disks) <= {"/"}


def test_a_mount_that_comes_later_is_found_and_one_that_goes_is_kept(tmp_path: Path) -> None:
    tree = gpu_node(tmp_path, drives=2)
    leaves = look(tree)
    assert "/raid" not in leaves.disks
    before = (tree.proc / "self/mountinfo").read_text()
    tree.mount("/raid", "9:0", "ext4", "/dev/md0")
    leaves.look()
    assert leaves.disks["/raid"] == ("nvme0n1", "nvme1n1")
    tree.file(tree.proc / "self/mountinfo", before)
    leaves.look()
    assert leaves.disks["/raid"] == ("nvme0n1", "nvme1n1")


def test_a_loop_device_that_bears_another_file_by_now_is_read_again(tmp_path: Path) -> None:
    tree = gpu_node(tmp_path, drives=2)
    tree.mount("/raid", "9:0", "ext4", "/dev/md0")
    tree.disk("loop0", "7:0")
    backing = tree.sys / "block/loop0/loop/backing_file"
    tree.file(backing, "/raid/one\n")
    tree.mount("/image", "7:0", "squashfs", "/dev/loop0")
    leaves = look(tree)
    tree.file(backing, "/home/two\n")
    tree.mount("/image2", "7:0", "squashfs", "/dev/loop0")
    leaves.look()
    assert leaves.disks["/image"] == leaves.disks["/image2"] == ("sda",)


def test_mounts_of_the_jobs_own_namespace_count_before_the_nodes(tmp_path: Path) -> None:
    tree = gpu_node(tmp_path, drives=2)
    tree.mount("/data", "8:1", "ext4", "/dev/sda1")
    inside = NodeTree(tmp_path / "inside")
    inside.mount("/data", "9:0", "ext4", "/dev/md0")
    for pid in (40, 41):  # two processes of one container
        folder = tree.proc / str(pid)
        text = (inside.proc / "self/mountinfo").read_text()
        tree.file(folder / "mountinfo", text)
        (folder / "ns").mkdir()
        (folder / "ns/mnt").symlink_to("mnt:[4026532999]")
    (tree.proc / "self/ns").mkdir()
    (tree.proc / "self/ns/mnt").symlink_to("mnt:[4026531841]")
    assert look(tree).disks["/data"] == ("sda",)
    assert look(tree, 40, 41).disks["/data"] == ("nvme0n1", "nvme1n1")


def test_names_that_are_no_utf_8_do_not_spoil_the_facts(tmp_path: Path) -> None:
    tree = gpu_node(tmp_path, drives=2)
    text = (tree.proc / "self/mountinfo").read_bytes()
    (tree.proc / "self/mountinfo").write_bytes(text + b"9 1 9:0 / /m\xff rw - ext4 /dev/md0 rw\n")
    (name,) = (mount for mount in look(tree).disks if mount != "/")
    assert name.encode("utf-8") == "/m�".encode()
