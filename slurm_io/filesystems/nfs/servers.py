"""Which mounts are one superblock, and which share the connections to one server.

Counters of operations belong to a superblock, those of connections to a client of one server
(``nfs_client``): address, protocol, port and version alike. Both are repeated in the block of every
mount. Values that look alike prove nothing while traffic runs, since the kernel writes the blocks
one after the other: superblocks are told by their device number in mountinfo, servers by name and
options.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from slurm_io.filesystems.mounts import Mount
from slurm_io.filesystems.nfs.mountstats import NfsMount, age_of, behind_age, parse_head

Identity = Hashable


def superblocks(blocks: Sequence[bytes], mounts: Sequence[Mount]) -> list[Identity]:
    """What tells the superblock of each block: equal for mounts of one superblock.

    Args:
        blocks: of mountstats, in its order.
        mounts: the NFS mounts of mountinfo, in its order, which is the same. A block without its
            mount (mountinfo is older or cannot be read) is told by its content.
    """
    points = [parse_head(block).mount_point for block in blocks]
    if points == [mount.mount_point for mount in mounts]:
        return [mount.major_minor for mount in mounts]
    by_point = {mount.mount_point: mount.major_minor for mount in mounts}
    return [
        by_point.get(point) or _content(block) for point, block in zip(points, blocks, strict=True)
    ]


def host_of(device: str) -> str:
    """``server`` of ``server:/export``; an IPv6 address keeps its brackets."""
    return device.partition(":/")[0]


def server_of(mount: NfsMount, address: str | None) -> Identity:
    """What is alike for all mounts that share connections.

    `address` is ``addr=`` of mountinfo: one name may stand for several addresses. With
    ``nosharetransport`` connections are not shared: then their ports differ. RDMA has no ports.
    """
    names = ("mountaddr", "proto", "port", "vers", "minorversion")
    ports = tuple(transport.source_port for transport in mount.transports)
    return (
        host_of(mount.head.device),
        address,
        *(mount.option(name) for name in names),
        ports,
        len(ports),
    )


def _content(block: bytes) -> Identity:
    return (host_of(parse_head(block).device), age_of(block), hash(behind_age(block)))
