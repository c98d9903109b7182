"""Roles, parents and members of block devices from a made-up /sys, and who serves a mount."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_io.filesystems.block_devices import BlockDevices, device_of_mount, read_device
from slurm_io.filesystems.mounts import Mount, MountTable, parse_line

FIXTURES = Path(__file__).parents[1] / "fixtures" / "host" / "sysfs"


def add_device(sys_root: Path, name: str, **files: str) -> Path:
    folder = sys_root / "devices" / name
    for file, text in {"size": "2048\n", **files}.items():
        path = folder / file.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    link(sys_root, folder)
    return folder


def link(sys_root: Path, folder: Path) -> None:
    place = sys_root / "class" / "block" / folder.name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(folder)


def add_partition(sys_root: Path, disk: Path, name: str, dev: str) -> None:
    folder = disk / name
    folder.mkdir()
    (folder / "partition").write_text("1\n")
    (folder / "size").write_text("1024\n")
    (folder / "dev").write_text(dev + "\n")
    link(sys_root, folder)


@pytest.fixture
def gpu_node(tmp_path: Path) -> Path:
    """md0 over partitions of two NVMe disks, LVM over md0, a multipath head, loop, nbd, cciss."""
    for number in (0, 1):
        disk = add_device(
            tmp_path, f"nvme{number}n1", dev=f"259:{number * 2}\n", queue__rotational="0\n",
            queue__iostats="1\n", device__model="SAMSUNG MZWLJ3T8 \n",
        )  # fmt: skip
        add_partition(tmp_path, disk, f"nvme{number}n1p1", f"259:{number * 2 + 1}")
    add_device(
        tmp_path,
        "md0",
        dev="9:0\n",
        queue__iostats="0\n",
        slaves__nvme0n1p1__x="",
        slaves__nvme1n1p1__x="",
    )
    add_device(tmp_path, "dm-0", dev="253:0\n", dm__name="vg-data\n", slaves__md0__x="")
    add_device(tmp_path, "nvme3c33n1", device__model="PATH\n")
    add_device(tmp_path, "loop3", loop__backing_file="/images/data.squashfs\n")
    add_device(tmp_path, "nbd0", size="0\n")
    add_device(tmp_path, "cciss!c0d0", queue__rotational="1\n")
    return tmp_path


def test_roles_and_parents(gpu_node: Path) -> None:
    devices = BlockDevices(gpu_node)
    names = ["nvme0n1", "nvme0n1p1", "md0", "dm-0", "nvme3c33n1", "loop3", "cciss/c0d0"]
    found = [devices.get(name) for name in names]
    assert [(d.role, d.parent) for d in found if d is not None] == [
        ("disk", None), ("partition", "nvme0n1"), ("md", None), ("dm", None),
        ("mpath", "nvme3n1"), ("loop", None), ("disk", None),
    ]  # fmt: skip


def test_facts_of_a_disk(gpu_node: Path) -> None:
    disk, partition = read_device(gpu_node, "nvme0n1"), read_device(gpu_node, "nvme0n1p1")
    assert disk is not None and partition is not None
    assert (disk.size_bytes, disk.rotational, disk.model) == (2**20, False, "SAMSUNG MZWLJ3T8")
    assert (partition.size_bytes, partition.rotational, partition.major_minor) == (
        2**19, False, "259:1",
    )  # fmt: skip
    old = read_device(gpu_node, "cciss/c0d0")
    assert old is not None and old.rotational is True and old.model is None


def test_counters_switched_off_are_said(gpu_node: Path) -> None:
    md, disk = read_device(gpu_node, "md0"), read_device(gpu_node, "nvme0n1")
    assert md is not None and not md.counts
    assert disk is not None and disk.counts


@pytest.mark.parametrize("name", ["ram3", "zram0", "sr0", "fd0", "nbd0"])
def test_devices_of_no_interest(gpu_node: Path, name: str) -> None:
    assert read_device(gpu_node, name) is None


def test_leaves_are_whole_disks_each_once(gpu_node: Path) -> None:
    devices = BlockDevices(gpu_node)
    assert devices.leaf_disks("dm-0") == ("nvme0n1", "nvme1n1")
    assert devices.leaf_disks("nvme1n1p1") == ("nvme1n1",)
    assert devices.leaf_disks("nvme1n1") == ("nvme1n1",)


def test_md_members_without_a_slaves_folder(tmp_path: Path) -> None:
    for path in (FIXTURES / "paths_dm_md.txt").read_text().split():
        file = tmp_path / path.replace("sys/", "", 1)
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("")
    md10, dm1 = read_device(tmp_path, "md10"), read_device(tmp_path, "dm-1")
    assert md10 is not None and md10.role == "md"
    assert md10.slaves == ("sdu", "sdv", "sdw", "sdx")
    assert dm1 is not None and (dm1.role, dm1.slaves) == ("dm", ("sdb", "sdc"))


@pytest.mark.parametrize(
    ("name", "role", "parent"),
    [
        ("sda3", "partition", "sda"), ("nvme0n1p2", "partition", "nvme0n1"), ("dm-4", "dm", None),
        ("md127", "md", None), ("nvme0c0n1", "mpath", "nvme0n1"), ("loop0", "loop", None),
        ("sda", "disk", None), ("nvme0n1", "disk", None), ("mmcblk0p1", "partition", "mmcblk0"),
    ],
)  # fmt: skip
def test_without_sysfs_the_name_decides(
    tmp_path: Path, name: str, role: str, parent: str | None
) -> None:
    device = read_device(tmp_path, name)
    assert device is not None
    assert (device.role, device.parent, device.size_bytes) == (role, parent, None)


def mount(text: str) -> Mount:
    found = parse_line(text)
    assert found is not None
    return found


def test_which_device_serves_a_mount(gpu_node: Path) -> None:
    devices = BlockDevices(gpu_node)
    known = tuple(d for name in ("nvme0n1p1", "dm-0", "md0") if (d := devices.get(name)))
    data = mount("2 1 253:0 / /data rw - xfs /dev/mapper/vg-data rw")
    btrfs = mount("3 1 0:45 /sub /home rw - btrfs /dev/mapper/vg-data rw")
    nfs = mount("4 1 0:46 / /nfs rw - nfs4 srv:/x rw")
    overlay = mount(
        "5 1 0:47 / /ct rw - overlay overlay rw,lowerdir=/a,upperdir=/data/up,workdir=/w"
    )
    mounts = MountTable([mount("1 0 0:2 / / rw - tmpfs t rw"), data, btrfs, nfs, overlay])
    served = [device_of_mount(item, known, mounts) for item in mounts]
    assert served == [None, "dm-0", "dm-0", None, "dm-0"]
