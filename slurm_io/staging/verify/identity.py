"""Which machine and which file system this is, in terms that outlive a reboot.

Device numbers are handed out anew at each boot, so a local file system goes by its UUID, a network
one by its source, and a tmpfs (gone after a reboot) by the boot and its own number.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from slurm_io.filesystems.kinds import NETWORK_KINDS, Kind
from slurm_io.filesystems.mounts import Mount, MountTable, read_mounts

_UUID_FSID = frozenset({"ext2", "ext3", "ext4", "btrfs", "f2fs", "zfs"})
"""Types whose statvfs number is made from the UUID; that of xfs is the device number."""


class Machine(NamedTuple):
    """`machine_id` alone will not do: nodes cloned from one image can share it."""

    machine_id: str | None
    node: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return self._asdict()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Machine:
        """The inverse of :meth:`to_dict`."""
        return cls(data.get("machine_id"), str(data.get("node", "")))


class FileSystem(NamedTuple):
    """`name` is ``uuid:…``, ``source:…`` or ``boot:…``; `mount_point` is where it was mounted."""

    fstype: str
    name: str
    mount_point: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return self._asdict()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FileSystem:
        """The inverse of :meth:`to_dict`."""
        return cls(*(str(data.get(name, "")) for name in ("fstype", "name", "mount_point")))

    def same_as(self, other: FileSystem) -> bool:
        """Whether both are one file system, wherever it is mounted."""
        return (self.fstype, self.name) == (other.fstype, other.name)


class Roots(NamedTuple):
    """Where the machine's own files are, so that tests can look at recorded trees."""

    etc: str = "/etc"
    proc: str = "/proc"
    dev: str = "/dev"


def this_machine(roots: Roots | None = None) -> Machine:
    """The machine this runs on; `machine_id` None where systemd has not set one."""
    try:
        with open(f"{(roots or Roots()).etc}/machine-id", "rb") as file:
            text = file.read(64).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        text = ""
    return Machine(text if len(text) == 32 else None, os.uname().nodename)


def mount_of(descriptor: int, mounts: MountTable) -> Mount | None:
    """The mount an open folder lies on, as the kernel names it for the descriptor."""
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", "rb") as file:
            words = file.read(4096).split()
    except OSError:
        return None
    return mounts.by_id(int(words[words.index(b"mnt_id:") + 1])) if b"mnt_id:" in words else None


def file_system_of(descriptor: int, mount: Mount, roots: Roots | None = None) -> FileSystem:
    """Identity of the file system an open folder lies on."""
    where = roots or Roots()
    fstype = "nfs" if mount.kind == "nfs" else mount.fstype
    return FileSystem(fstype, _name(descriptor, mount, where), mount.mount_point)


def mounts_now(roots: Roots | None = None) -> MountTable:
    """The mounts of this process's namespace."""
    return read_mounts((roots or Roots()).proc)


def kind_at(mount: Mount | None) -> Kind:
    """Family of a mount; "other" where it is not known."""
    return "other" if mount is None else mount.kind


def _name(descriptor: int, mount: Mount, roots: Roots) -> str:
    if mount.kind in NETWORK_KINDS:
        return f"source:{mount.source}"
    if mount.kind == "tmpfs":
        return f"boot:{boot_id(roots)}:{os.fstatvfs(descriptor).f_fsid}"
    uuid = _uuid(descriptor, mount, roots)
    if uuid is not None:
        return f"uuid:{uuid}"
    if mount.fstype in _UUID_FSID:
        return f"fsid:{os.fstatvfs(descriptor).f_fsid:x}"
    return f"source:{mount.source}:{mount.option('upperdir') or mount.root}"


def _uuid(descriptor: int, mount: Mount, roots: Roots) -> str | None:
    """UUID of the block device below, from the links udev makes."""
    devices = {os.fstat(descriptor).st_dev}
    try:
        if mount.source.startswith("/dev/"):
            devices.add(os.stat(mount.source).st_rdev)
        with os.scandir(f"{roots.dev}/disk/by-uuid") as links:
            for link in links:
                if link.stat().st_rdev in devices:
                    return link.name
    except OSError:
        return None
    return None


def boot_id(roots: Roots) -> str:
    """Of the running kernel; another one after each boot."""
    try:
        with open(f"{roots.proc}/sys/kernel/random/boot_id", "rb") as file:
            return file.read(64).decode("ascii", "replace").strip()
    except OSError:
        return "unknown"
