"""For each mount the devices whose counters add up to its I/O, every byte once.

The same bytes show on every layer: partition and disk, md and its members, a loop device and the
disk its file lies on. The leaves of a mount are the whole disks at the bottom; a loop device is one
only when nothing below it counts (its file is on a network or in memory).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from slurm_io.filesystems.below import below
from slurm_io.filesystems.block_devices import BlockDevices, device_of_mount
from slurm_io.filesystems.mounts import Mount, MountTable, parse_mountinfo
from slurm_io.host.read import read_optional_text

_LIMIT_BYTES = 64 * 1024 * 1024
_MOST_MOUNTS = 256
_MOST_NAMESPACES = 4
_WITHOUT_DEVICES = frozenset(
    ("pseudo", "tmpfs", "nfs", "lustre", "gpfs", "beegfs", "weka", "ceph", "smb")
)


class MountLeaves:
    """The mounts of this namespace and of the job's own ones (containers), as they come and go.

    :meth:`look` reads them again; what was found of mounts that are gone is kept.

    Attributes:
        disks: mount point -> whole disks, before multipath is told apart.
        device: mount point -> the device that is mounted.
    """

    def __init__(self, proc_root: Path, sys_root: Path, devices: BlockDevices) -> None:
        self._proc_root = proc_root
        self._root = os.fspath(proc_root)
        self._sys_root = str(sys_root)
        self._devices = devices
        self._hashes: tuple[int, ...] = ()
        self.disks: dict[str, tuple[str, ...]] = {}
        self.device: dict[str, str] = {}

    def look(self, pids: Iterable[int] = ()) -> None:
        """`pids`: processes of the job, whose mounts count before the node's of the same name."""
        own = self._read("self")
        views = [self._read(str(pid)) for pid in self._one_of_each_namespace(pids)]
        hashes = tuple(map(hash, (own, *views)))
        if hashes == self._hashes:
            return
        self._hashes = hashes
        self._forget_loops()
        node = MountTable(parse_mountinfo(own))
        for text in (own, *views):
            for mount in parse_mountinfo(text)[: 16 * _MOST_MOUNTS]:
                self._take(mount, node)

    def _take(self, mount: Mount, node: MountTable) -> None:
        if mount.kind in _WITHOUT_DEVICES:
            return
        point = _safe(mount.mount_point)
        lies_on = below(mount, node, self._sys_root, self._devices)
        device = device_of_mount(mount, self._devices.known(), node)
        disks = lies_on.disks or (self._devices.leaf_disks(device) if device is not None else ())
        found = self._leaves(disks)
        if not found or point not in self.disks and len(self.disks) >= _MOST_MOUNTS:
            return
        self.disks[point] = found
        self.device[point] = device or lies_on.tops[0]

    def _leaves(self, disks: tuple[str, ...]) -> tuple[str, ...]:
        known = [device for disk in disks if (device := self._devices.get(disk)) is not None]
        bottom = tuple(device.name for device in known if device.role != "loop")
        return bottom or tuple(device.name for device in known)

    def _forget_loops(self) -> None:
        """A loop device bears another file by now."""
        for device in self._devices.known():
            if device.role == "loop":
                self._devices.forget(device.name)

    def _one_of_each_namespace(self, pids: Iterable[int]) -> list[int]:
        found: dict[str, int] = {}
        own = self._namespace("self")
        for pid in pids:
            namespace = self._namespace(str(pid))
            if namespace not in (None, own):
                found.setdefault(namespace or "", pid)
            if len(found) >= _MOST_NAMESPACES:
                break
        return list(found.values())

    def _namespace(self, who: str) -> str | None:
        try:
            return os.readlink(f"{self._root}/{who}/ns/mnt")  # noqa: PTH115 - one a process
        except OSError:
            return None

    def _read(self, who: str) -> str:
        return read_optional_text(self._proc_root / who / "mountinfo", _LIMIT_BYTES) or ""


def _safe(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
