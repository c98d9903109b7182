"""What a mount's source alone says: family of the file system, servers, export, name.

Sources as /proc/self/mountinfo and df show them::

    192.0.2.10@o2ib,192.0.2.12@o2ib:192.0.2.11@o2ib:/lustre/sub/dir     Lustre
    ssd.example.org:/home    [2001:db8::10]:/export                      NFS
    beegfs_nodev    /dev/mapper/rl-var    //server/share    tmpfs

A source is a hint only; where the type is known (mountinfo), that counts.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from slurm_io.filesystems.kinds import Kind, kind_of

_NETWORKS = r"(?:tcp|o2ib|gni|kfi|efa|ptlf|ptl|lo|mx|ra|elan|qsw|cib|iib|openib|vib)[0-9]{0,5}"
_V6 = r"(?:\[[0-9A-Fa-f:.]+\]|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7})"
_NID = rf"(?:{_V6}|[^][:,@/\s]+)@{_NETWORKS}"
_NODE = rf"{_NID}(?:,{_NID})*"
_LUSTRE = re.compile(rf"(?P<servers>{_NODE}(?::{_NODE})*):/(?P<fsname>[^/:]+)(?P<subdir>/.*)?")
_LUSTRE_NODE = re.compile(_NODE)
_LUSTRE_BY_NAME = re.compile(r"(?P<servers>[^/\s]+?):/(?P<fsname>[^/:]+)(?P<subdir>/.*)?")
_NFS = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>[^][:/@,=\s]+)):(?P<path>/.*)"
)
_CEPH = re.compile(
    r"(?:[^@/\s]+@[0-9a-f-]*\.[^=/\s]+=|(?:[^/,\s]*:[0-9]+(?:,[^/,\s]*:[0-9]+)*)?:)/.*"
)
_SMB = re.compile(r"//[^/\s]+/.*")
_LOCAL = re.compile(r"/dev/.+|(?:PART)?(?:UUID|LABEL)=.+")
_BARE_NAMES = frozenset(
    ("beegfs_nodev", "tmpfs", "overlay", "proc", "sysfs", "devtmpfs", "cgroup2")
)


class LustreSource(NamedTuple):
    """`mgs`: for each node that may be the management server, its addresses (NIDs).

    `subdir` is the folder of the file system that is mounted, None for its root.
    """

    fsname: str
    subdir: str | None
    mgs: tuple[tuple[str, ...], ...]


class NfsSource(NamedTuple):
    """Server (an IPv6 address without its brackets) and exported path."""

    host: str
    path: str


def kind_of_source(source: str) -> Kind:
    """Family by the source alone; "other" when it does not tell.

    A Lustre source whose servers are plain host names looks like NFS, and reads as NFS.
    """
    if parse_lustre_source(source) is not None:
        return "lustre"
    if parse_nfs_source(source) is not None:
        return "nfs"
    if source in _BARE_NAMES:
        return kind_of(source)
    for kind, pattern in _BY_PATTERN.items():
        if pattern.fullmatch(source):
            return kind
    return "other"


def parse_lustre_source(source: str, is_lustre: bool = False) -> LustreSource | None:
    """Parts of a Lustre source; None when it is not one.

    `is_lustre`: the type of the mount says so, hence servers may be plain host names.
    """
    found = _LUSTRE.fullmatch(source)
    if found is not None:
        nodes = _nodes(found["servers"])
    elif is_lustre and (found := _LUSTRE_BY_NAME.fullmatch(source)) is not None:
        nodes = found["servers"].split(":")
    else:
        return None
    servers = tuple(tuple(node.split(",")) for node in nodes)
    if not all(map(all, servers)):  # a server without an address
        return None
    return LustreSource(found["fsname"], (found["subdir"] or "").rstrip("/") or None, servers)


def parse_nfs_source(source: str) -> NfsSource | None:
    """Host and path of ``host:/path`` or ``[v6]:/path``; None for anything else."""
    found = _NFS.fullmatch(source)
    return NfsSource(found["v6"] or found["host"], found["path"]) if found is not None else None


def _nodes(servers: str) -> list[str]:
    """Split at the colons between nodes, which are not those of an IPv6 address."""
    nodes: list[str] = []
    position = 0
    while (found := _LUSTRE_NODE.match(servers, position)) is not None:
        nodes.append(found[0])
        position = found.end() + 1
    return nodes


_BY_PATTERN: dict[Kind, re.Pattern[str]] = {"local": _LOCAL, "smb": _SMB, "ceph": _CEPH}
