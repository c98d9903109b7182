"""Block devices from /sys: role, parent, members, size; and which device serves a mount.

Devices are stacked (partition on disk, md on partitions, dm on md): the same bytes show on every
layer, so counters of different layers must never be added. `parent` and `slaves` tell the layers.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Literal

from slurm_io.filesystems.diskstats import SECTOR_BYTES
from slurm_io.filesystems.mounts import Mount, MountTable
from slurm_io.host.read import read_optional_line, read_optional_number
from slurm_io.records import asdict, dataclass

if TYPE_CHECKING:  # 3 ms, of which a prolog needs nothing
    from pathlib import Path

Role = Literal["disk", "partition", "md", "dm", "mpath", "loop"]

_IGNORED = re.compile(r"(ram|zram|sr|fd)\d+")
_NVME_PATH = re.compile(r"nvme(\d+)c\d+n(\d+)")
_NVME_PATH_PARTITION = re.compile(r"nvme\d+c\d+n\d+p\d+")
_MOST_LAYERS = 8


@dataclass(frozen=True)
class BlockDevice:
    """One block device.

    `role` "mpath" is a path of native NVMe multipath, whose `parent` is the head that is mounted;
    the `parent` of a partition is its disk. `slaves` are the devices right below a md or dm.
    `counts` is False where the kernel is told not to count (``queue/iostats`` = 0): its zeros mean
    "not measured".
    """

    name: str
    role: Role
    parent: str | None
    slaves: tuple[str, ...]
    major_minor: str | None
    size_bytes: int | None
    rotational: bool | None
    model: str | None
    dm_name: str | None
    backing_file: str | None
    counts: bool

    def to_dict(self) -> dict[str, object]:
        """As meta.json holds it."""
        return asdict(self)


def is_ignored(name: str) -> bool:
    """True for devices that hold no data set: RAM disks, compressed swap, optical, floppy."""
    return _IGNORED.fullmatch(name) is not None


def head_of(name: str) -> str | None:
    """The head that a path of native NVMe multipath belongs to; None for any other device."""
    found = _NVME_PATH.fullmatch(name)
    return f"nvme{found[1]}n{found[2]}" if found else None


def read_device(sys_root: str | Path, name: str) -> BlockDevice | None:
    """The device called `name` as in /proc/diskstats; None when it is of no interest here.

    Without sysfs the name alone decides the role. ``nbd`` without size is no device.
    """
    if is_ignored(name):
        return None
    folder = _folder(sys_root, name)
    role = _role(folder, name)
    disk = os.path.dirname(os.path.realpath(folder)) if role == "partition" else folder
    size_sectors = read_optional_number(f"{folder}/size")
    if name.startswith("nbd") and not size_sectors:
        return None
    rotational = read_optional_number(f"{disk}/queue/rotational")
    return BlockDevice(
        name=name,
        role=role,
        parent=_parent(disk, name, role),
        slaves=_slaves(folder),
        major_minor=read_optional_line(f"{folder}/dev"),
        size_bytes=None if size_sectors is None else size_sectors * SECTOR_BYTES,
        rotational=None if rotational is None else rotational == 1,
        model=read_optional_line(f"{disk}/device/model"),
        dm_name=read_optional_line(f"{folder}/dm/name"),
        backing_file=read_optional_line(f"{folder}/loop/backing_file"),
        counts=read_optional_number(f"{disk}/queue/iostats") != 0,
    )


class BlockDevices:
    """Devices by name, read from /sys when first asked for."""

    def __init__(self, sys_root: str | Path) -> None:
        self._sys_root = sys_root
        self._found: dict[str, BlockDevice | None] = {}

    def get(self, name: str) -> BlockDevice | None:
        """The device, or None when it is one of no interest."""
        if name not in self._found:
            self._found[name] = read_device(self._sys_root, name)
        return self._found[name]

    def forget(self, name: str) -> None:
        """Read the device anew when next asked: it went away or changed."""
        self._found.pop(name, None)

    def known(self) -> tuple[BlockDevice, ...]:
        """All devices asked for so far that are of interest, by name."""
        return tuple(device for _, device in sorted(self._found.items()) if device is not None)

    def leaf_disks(self, name: str) -> tuple[str, ...]:
        """Whole disks below a device, each once: partitions and md or dm members followed down."""
        level: list[str] = [name]
        leaves: dict[str, None] = {}
        for _ in range(_MOST_LAYERS):
            below: list[str] = []
            for device in (self.get(item) for item in level):
                if device is None:
                    continue
                if device.slaves:
                    below.extend(device.slaves)
                elif device.role == "partition" and device.parent:
                    below.append(device.parent)
                else:
                    leaves[device.name] = None
            level = list(dict.fromkeys(below))  # else many on the same ones multiply by layers
        return tuple(leaves)


def device_of_mount(
    mount: Mount, devices: tuple[BlockDevice, ...], mounts: MountTable | None = None
) -> str | None:
    """Name of the block device a mount lies on; None for network, memory and unknown ones.

    btrfs and others have an anonymous device number: then the source decides. An overlay is served
    by what its upper folder lies on.
    """
    if mount.kind == "overlay" and mounts is not None:
        upper = mount.option("upperdir")
        below = mounts.of_path(upper) if upper else None
        if below is None or below.kind == "overlay":
            return None
        return device_of_mount(below, devices)
    if not mount.major_minor.startswith("0:"):
        for device in devices:
            if device.major_minor == mount.major_minor:
                return device.name
    if mount.source.startswith("/dev/"):
        wanted = mount.source.removeprefix("/dev/")
        for device in devices:
            if wanted == device.name or (
                device.dm_name is not None and wanted == f"mapper/{device.dm_name}"
            ):
                return device.name
    return None


def _folder(sys_root: str | Path, name: str) -> str:
    # /sys/class/block holds partitions too, as links; a slash in a name is spelt "!" there.
    name = name.replace("/", "!")
    folder = f"{sys_root}/class/block/{name}"
    return folder if os.path.exists(folder) else f"{sys_root}/block/{name}"


def _role(folder: str, name: str) -> Role:
    if os.path.exists(f"{folder}/partition") or _NVME_PATH_PARTITION.fullmatch(name):
        return "partition"
    if head_of(name) is not None:
        return "mpath"
    if os.path.exists(f"{folder}/dm") or re.fullmatch(r"dm-\d+", name):
        return "dm"
    if os.path.exists(f"{folder}/md") or re.fullmatch(r"md(\d+|_\w+)", name):
        return "md"
    if re.fullmatch(r"loop\d+", name):
        return "loop"
    return "disk" if os.path.exists(folder) else _role_by_name(name)


def _role_by_name(name: str) -> Role:
    if re.fullmatch(r"(sd|hd|vd|xvd)[a-z]+\d+|.*\dp\d+", name):
        return "partition"
    return "disk"


def _parent(disk: str, name: str, role: Role) -> str | None:
    if role == "mpath":
        return head_of(name)
    if role != "partition":
        return None
    if os.path.exists(f"{disk}/size"):
        return os.path.basename(disk).replace("!", "/")
    found = re.fullmatch(r"((?:sd|hd|vd|xvd)[a-z]+)\d+|(.*\d)p\d+", name)
    return (found[1] or found[2]) if found else None


def _slaves(folder: str) -> tuple[str, ...]:
    names = _names_in(f"{folder}/slaves")
    if not names:
        members = (name for name in _names_in(f"{folder}/md") if name.startswith("dev-"))
        names = sorted(name.removeprefix("dev-") for name in members)
    return tuple(name.replace("!", "/") for name in names)


def _names_in(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
