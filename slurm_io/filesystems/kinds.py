"""Which family a file system type belongs to: what can be measured, and where, follows from it."""

from __future__ import annotations

from typing import Literal

Kind = Literal[
    "local", "nfs", "lustre", "gpfs", "beegfs", "weka", "ceph", "smb", "fuse", "overlay", "tmpfs",
    "pseudo", "other",
]  # fmt: skip

_TYPES: dict[Kind, str] = {
    "local": "ext2 ext3 ext4 xfs btrfs f2fs zfs bcachefs jfs reiserfs nilfs2 vfat exfat ntfs3 "
    "fuseblk squashfs erofs iso9660 udf minix",
    "nfs": "nfs nfs4",
    "lustre": "lustre lustre_tgt",
    "gpfs": "gpfs mmfs",
    "beegfs": "beegfs beegfs_nodev",
    "weka": "wekafs",
    "ceph": "ceph",
    "smb": "cifs smb3 smbfs",
    "fuse": "fuse virtiofs",
    "overlay": "overlay overlayfs aufs",
    "tmpfs": "tmpfs ramfs hugetlbfs",
    "pseudo": "proc sysfs devtmpfs devpts cgroup cgroup2 securityfs debugfs tracefs pstore bpf "
    "mqueue autofs configfs fusectl binfmt_misc efivarfs nsfs rpc_pipefs selinuxfs rootfs sockfs "
    "pipefs anon_inodefs nfsd dax bdev cpuset resctrl nullfs",
}
_KIND_OF: dict[str, Kind] = {name: kind for kind, names in _TYPES.items() for name in names.split()}

NETWORK_KINDS: frozenset[Kind] = frozenset(
    {"nfs", "lustre", "gpfs", "beegfs", "weka", "ceph", "smb", "fuse"}
)
"""Kinds whose I/O does not show in /proc/diskstats and only by accident in PSI. FUSE may be local
after all; that cannot be told from its type."""


def kind_of(fstype: str) -> Kind:
    """Family of a type as mountinfo spells it; ``fuse.NAME`` is fuse, lxcfs is pseudo."""
    if fstype == "fuse.lxcfs":
        return "pseudo"
    if fstype.startswith("fuse."):
        return "fuse"
    return _KIND_OF.get(fstype, "other")
