"""The NFS client of a node: superblocks with their counters, servers with their waiting requests.

Fed with the blocks of mountstats tick by tick; touches nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from slurm_io.filesystems.client_counters import OP_CLASSES, ClientCounters, OpClass
from slurm_io.filesystems.mounts import Mount
from slurm_io.filesystems.nfs.mountstats import Head, NfsMount, parse_head, parse_mount
from slurm_io.filesystems.nfs.reading import MountReading, payload_of
from slurm_io.filesystems.nfs.servers import Identity, host_of, server_of, superblocks
from slurm_io.filesystems.nfs.transports import Transport
from slurm_io.filesystems.nfs.waiting import WaitingRequests

_MOST_SHOWN = 256  # containers may bind one mount thousands of times


@dataclass(eq=False)
class Superblock:
    """One superblock: what it counted, under which of its mounts it is shown, what was found.

    Attributes:
        about: its first mount as it was when the mounts last changed.
        also: the mount points of its others.
        changed: whether a counter differs from the reading before.
        completed: operations completed since the reading before, by class.
    """

    identity: Identity
    about: NfsMount
    server: Server | None = None
    also: list[str] = field(default_factory=list)
    reading: MountReading = field(default_factory=MountReading)
    changed: bool = False
    completed: dict[OpClass, int] = field(default_factory=dict)

    @property
    def is_due(self) -> bool:
        """True when it has something to say: it did something, or its row holds what waits."""
        return self.changed or any(self._inflight(op_class) for op_class in OP_CLASSES)

    def counters(self, op_class: OpClass) -> ClientCounters:
        """Totals of one class, `inflight` in the row that is charged with it."""
        return self.reading.counters[op_class]._replace(inflight=self._inflight(op_class))

    def take(self, block: bytes) -> None:
        """Read the block of now."""
        before = {name: one.ops or 0 for name, one in self.reading.counters.items()}
        self.changed = self.reading.take(block)
        if self.changed:
            now = self.reading.counters
            self.completed = {name: (now[name].ops or 0) - before.get(name, 0) for name in now}

    def _inflight(self, op_class: OpClass) -> int | None:
        server = self.server
        is_charged = server is not None and server.charged == (self, op_class)
        return server.inflight if server is not None and is_charged else None


@dataclass(frozen=True)
class Stack:
    """What is mounted at one mount point: one superblock, or several over one another, of which the
    covered ones may still be in use. They have one row together."""

    members: tuple[Superblock, ...]

    @property
    def owner(self) -> Identity:
        """What tells its counters from those of other superblocks at the same place."""
        return tuple(one.identity for one in self.members)

    @property
    def head(self) -> Head:
        """The first line of the block of the first."""
        return self.members[0].about.head

    @property
    def restarted(self) -> bool:
        """Whether one of them was mounted anew since the last reading."""
        return any(one.reading.restarted for one in self.members)

    def counters(self, op_class: OpClass) -> ClientCounters:
        """Sums of one class; a total that one of them does not have is None."""
        found = [one.counters(op_class) for one in self.members]
        if len(found) == 1:
            return found[0]
        sums = (None if None in totals else sum(totals) for totals in zip(*found, strict=True))
        waiting = [one.inflight for one in found if one.inflight is not None]
        return ClientCounters(*sums)._replace(inflight=sum(waiting) if waiting else None)


@dataclass(eq=False)
class Server:
    """What shares the connections to one server.

    Attributes:
        inflight: requests that wait for a reply; None when not to be told.
        charged: superblock and class whose row holds `inflight`.
    """

    members: list[Superblock] = field(default_factory=list)
    inflight: int | None = None
    charged: tuple[Superblock, OpClass] | None = None
    _waiting: WaitingRequests = field(default_factory=WaitingRequests)
    _first: tuple[int, int] | None = None
    _last: tuple[int, int] = (0, 0)

    def take_members(self, members: list[Superblock]) -> None:
        """These share the connections from now on."""
        self.members = members
        for member in members:
            member.server = self
        if self.charged is not None and self.charged[0] not in members:
            self.charged = None

    def update(self) -> None:
        """After all members took their blocks. The last one's lines are the youngest."""
        transports = self.members[-1].reading.transports
        retrans = sum(member.reading.retrans for member in self.members)
        self.inflight = self._waiting.update(transports, retrans)
        self._last = _sends_and_backlog(transports)
        if self._first is None or self._last < self._first:
            self._first = self._last
        busy = [
            (done, member, op_class)
            for member in self.members
            if member.changed
            for op_class, done in member.completed.items()
        ]
        most = max(busy, key=lambda one: one[0], default=None)
        if most is not None and (most[0] > 0 or self.charged is None):
            self.charged = most[1:]

    def facts(self) -> dict[str, Any]:
        """For meta.json: the mean length of the queue for a slot when something was sent."""
        transports = self.members[-1].reading.transports
        sends, backlog = (
            now - then for now, then in zip(self._last, self._first or self._last, strict=True)
        )
        slots = [one.max_slots for one in transports if one.max_slots is not None]
        return {
            "server": host_of(self.members[0].about.head.device),
            "mounts": [member.about.head.mount_point for member in self.members],
            "connections": len(transports),
            "protocol": transports[0].protocol if transports else None,
            "most_slots_used": max(slots, default=None),
            "mean_backlog": backlog / sends if sends > 0 else None,
        }


class NfsClient:
    """All superblocks and servers. Lay it out anew whenever the first lines change."""

    def __init__(self) -> None:
        self.superblocks: list[Superblock] = []
        self.servers: list[Server] = []
        self._heads: list[bytes] = []
        self._places: list[Superblock | None] = []
        self._stacks: list[Stack] = []

    def fits(self, blocks: Sequence[bytes]) -> bool:
        """True while the blocks are about the mounts they were about."""
        return [_first_line(block) for block in blocks] == self._heads

    def lay_out(self, blocks: Sequence[bytes], mounts: Sequence[Mount]) -> list[Identity]:
        """Note which block is about which superblock and server; the owners that are gone.

        Args:
            blocks: of mountstats.
            mounts: the NFS mounts of mountinfo.
        """
        known = {one.identity: one for one in self.superblocks}
        found: dict[Identity, Superblock] = {}
        self._places = []
        for block, identity in zip(blocks, superblocks(blocks, mounts), strict=True):
            first = found.get(identity)
            if first is not None:
                first.also.append(parse_head(block).mount_point)
            else:
                about = parse_mount(block)._replace(operations={})  # those are read anew
                found[identity] = known.get(identity) or Superblock(identity, about)
                found[identity].about, found[identity].also = about, []
            self._places.append(None if first is not None else found[identity])
        self.superblocks = list(found.values())
        self._group(mounts)
        self._heads = [_first_line(block) for block in blocks]
        before, self._stacks = self._stacks, self._stacked()
        owners = {stack.owner for stack in self._stacks}
        return [stack.owner for stack in before if stack.owner not in owners]

    def _stacked(self) -> list[Stack]:
        points: dict[str, list[Superblock]] = {}
        for one in self.superblocks:
            points.setdefault(one.about.head.mount_point, []).append(one)
        return [Stack(tuple(members)) for members in points.values()]

    def _group(self, mounts: Sequence[Mount]) -> None:
        """Put the superblocks to their servers; a server keeps what it knew."""
        addresses = {mount.mount_point: mount.option("addr") for mount in mounts}
        groups: dict[Identity, list[Superblock]] = {}
        for one in self.superblocks:
            key = server_of(one.about, addresses.get(one.about.head.mount_point))
            groups.setdefault(key, []).append(one)
        before, self.servers = set(self.servers), []
        for members in groups.values():
            old = next((one.server for one in members if one.server in before), None)
            before.discard(old)
            server = old or Server()
            server.take_members(members)
            self.servers.append(server)

    def take(self, blocks: Sequence[bytes]) -> Iterator[Stack]:
        """Read the blocks of now; the mount points at which there is something to say."""
        for place, block in zip(self._places, blocks, strict=True):
            if place is not None:
                place.take(block)
        for server in self.servers:
            server.update()
        return (stack for stack in self._stacks if any(one.is_due for one in stack.members))

    def facts(self) -> dict[str, Any]:
        """What meta.json says of mounts and servers."""
        return {
            "mounts": [_mount_facts(one) for one in self.superblocks],
            "servers": [server.facts() for server in self.servers],
            "unread_lines": sum(one.about.unread_lines for one in self.superblocks),
        }


def _mount_facts(one: Superblock) -> dict[str, Any]:
    about = one.about
    return {
        "mount": about.head.mount_point,
        "also_mounted_at": one.also[:_MOST_SHOWN],
        "device": about.head.device,
        "version": about.option("vers"),
        "rpc_iostats": about.rpc_version,
        "connections": len(about.transports),
        "bytes_are": payload_of(about),
        "pnfs": about.labels.get("nfsv4", "").partition("pnfs=")[2] or None,
        "times_below_zero": one.reading.times_below_zero(),
    }


def _sends_and_backlog(transports: Sequence[Transport]) -> tuple[int, int]:
    return (
        sum(transport.sends for transport in transports),
        sum(transport.backlog_sum for transport in transports),
    )


def _first_line(block: bytes) -> bytes:
    end = block.find(b"\n")
    return block if end < 0 else block[:end]
