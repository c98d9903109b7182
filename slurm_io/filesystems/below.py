"""Which block devices lie below a mount: all layers, from what is mounted down to whole disks.

Only mountinfo and /sys are read, never the file system itself, which may hang.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from slurm_io.filesystems.block_devices import BlockDevice, BlockDevices
from slurm_io.filesystems.mounts import Mount, MountTable
from slurm_io.host.read import read_optional_line

_MOST_LAYERS = 8
_MOST_MOUNTS = 4  # overlay on loop file on overlay: enough


class Below(NamedTuple):
    """Names of the devices below one mount. `tops` are what is mounted (several for btrfs), `all`
    every layer, `disks` the whole disks. All empty for network and memory file systems."""

    tops: tuple[str, ...] = ()
    all: tuple[str, ...] = ()
    disks: tuple[str, ...] = ()


def below(mount: Mount, mounts: MountTable, sys_root: str, devices: BlockDevices) -> Below:
    """The devices below a mount, following overlays and loop files to what they lie on."""
    tops: list[str] = []
    current: Mount | None = mount
    for _ in range(_MOST_MOUNTS):
        if current is None:
            break
        if current.kind == "overlay":
            upper = current.option("upperdir")
            current = mounts.of_path(upper) if upper else None
            continue
        found = _mounted_devices(current, sys_root)
        tops += [name for name in found if name not in tops]
        backing = _backing_file(found, devices)
        current = mounts.of_path(backing) if backing else None
    return _layers(tuple(tops), devices)


def _layers(tops: tuple[str, ...], devices: BlockDevices) -> Below:
    every: dict[str, None] = {}
    disks: dict[str, None] = {}
    level = list(tops)
    for _ in range(_MOST_LAYERS):
        next_level: list[str] = []
        for name in level:
            if name in every:
                continue
            every[name] = None
            device = devices.get(name)
            lower = _right_below(device)
            if not lower:
                disks[name] = None
            next_level += lower
        level = next_level
    return Below(tops, tuple(every), tuple(disks))


def _right_below(device: BlockDevice | None) -> list[str]:
    if device is None:
        return []
    if device.slaves:
        return list(device.slaves)
    return [device.parent] if device.role == "partition" and device.parent else []


def _mounted_devices(mount: Mount, sys_root: str) -> list[str]:
    if mount.fstype == "btrfs" and (found := _btrfs_devices(mount, sys_root)):
        return found
    if not mount.major_minor.startswith("0:"):
        name = _device_of_number(mount.major_minor, sys_root)
        if name:
            return [name]
    name = _device_of_source(mount.source, sys_root)
    return [name] if name else []


def _device_of_number(major_minor: str, sys_root: str) -> str | None:
    with contextlib.suppress(OSError):
        link = os.readlink(f"{sys_root}/dev/block/{major_minor}")
        return os.path.basename(link).replace("!", "/")
    return None


def _device_of_source(source: str, sys_root: str) -> str | None:
    """The device by the name it was mounted under: /dev/sda1, /dev/mapper/vg-lv."""
    if not source.startswith("/dev/"):
        return None
    name = source.removeprefix("/dev/")
    if os.path.exists(f"{sys_root}/class/block/{name.replace('/', '!')}"):
        return name
    if name.startswith("mapper/"):
        volume = name.removeprefix("mapper/")
        for device in _names_in(f"{sys_root}/block"):
            path = f"{sys_root}/block/{device}/dm/name"
            if device.startswith("dm-") and read_optional_line(path) == volume:
                return device
    return None


def _btrfs_devices(mount: Mount, sys_root: str) -> list[str]:
    name = _device_of_source(mount.source, sys_root)
    if name is None:
        return []
    for file_system in _names_in(f"{sys_root}/fs/btrfs"):
        found = _names_in(f"{sys_root}/fs/btrfs/{file_system}/devices")
        members = [each.replace("!", "/") for each in found]
        if name in members:
            return members
    return []


def _names_in(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _backing_file(names: list[str], devices: BlockDevices) -> str | None:
    for name in names:
        device = devices.get(name)
        if device is not None and device.backing_file:
            return device.backing_file
    return None
