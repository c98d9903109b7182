"""One mount's block of mountstats read again and again: only lines that changed are parsed.

A v4 mount has some 70 lines of which a busy second changes ten.
"""

from __future__ import annotations

from slurm_io.filesystems.client_counters import OP_CLASSES, ClientCounters, OpClass
from slurm_io.filesystems.nfs.mountstats import NfsMount, age_of, behind_age, parse_payload
from slurm_io.filesystems.nfs.operations import Operation, class_of, counters, parse_operation
from slurm_io.filesystems.nfs.transports import Transport, parse_transport

_BYTES, _TRANSPORT = b"\tbytes:", b"\txprt:"
_OPERATIONS = b"\tper-op statistics"

_Class = OpClass | None  # None: housekeeping
_Named = tuple[str, Operation]


class MountReading:
    """Counters of one superblock as of the last :meth:`take`.

    Attributes:
        counters: by class; those of a class without operations are zero.
        transports: the connections of its server as this block shows them.
        restarted: whether the last block was of a younger superblock than the one before it.
    """

    def __init__(self) -> None:
        self.counters: dict[OpClass, ClientCounters] = {}
        self.transports: tuple[Transport, ...] = ()
        self.restarted = False
        self._age_s: int | None = None
        self._tail_hash: int | None = None
        self._lines: list[bytes] = []
        self._forget()

    @property
    def retrans(self) -> int:
        """Retransmissions of all operations, housekeeping included."""
        return sum(self._retrans.values())

    def take(self, block: bytes) -> bool:
        """Read the block of now; True when a counter differs from the last one."""
        age_s, before_s = age_of(block), self._age_s
        self._age_s = age_s
        self.restarted = age_s is not None and before_s is not None and age_s < before_s
        tail = behind_age(block)
        tail_hash = hash(tail)
        if tail_hash == self._tail_hash:
            return self.restarted
        self._tail_hash = tail_hash
        self._take_lines(tail.split(b"\n"))
        return True

    def times_below_zero(self) -> list[str]:
        """The operations of which the kernel shows an impossible time."""
        return [
            name
            for found in self._operations.values()
            for name, one in found.values()
            if None in (one.queue_ms, one.rtt_ms, one.exe_ms)
        ]

    def _forget(self) -> None:
        self._operations: dict[_Class, dict[int, _Named]] = {}
        self._connections: dict[int, Transport] = {}
        self._payload: tuple[int, int] | None = None
        self._retrans: dict[_Class, int] = {}

    def _take_lines(self, lines: list[bytes]) -> None:
        if len(lines) != len(self._lines):
            self._lay_out(lines)
        changed = [place for place, line in enumerate(lines) if line != self._lines[place]]
        if any(not lines[place].startswith(_label(self._lines[place])) for place in changed):
            self._lay_out(lines)
            changed = list(range(len(lines)))
        touched: set[_Class] = set()
        for place in changed:
            self._lines[place] = lines[place]
            touched |= self._take_line(place, lines[place])
        self.transports = tuple(self._connections.values())
        for op_class in touched if self.counters else (*OP_CLASSES, None):
            self._sum(op_class)

    def _lay_out(self, lines: list[bytes]) -> None:
        """The lines are about other things than they were: note what each is about."""
        self._forget()
        self._lines = [b""] * len(lines)
        self._first_operation = lines.index(_OPERATIONS) + 1 if _OPERATIONS in lines else len(lines)
        self.counters = {}

    def _take_line(self, place: int, line: bytes) -> set[_Class]:
        """Parse one changed line; the classes whose sums it changes."""
        if place >= self._first_operation:
            return self._take_operation(place, line)
        if line.startswith(_TRANSPORT):
            transport = parse_transport(line[len(_TRANSPORT) :])
            if transport is None:
                self._connections.pop(place, None)
            else:
                self._connections[place] = transport
        elif line.startswith(_BYTES):
            payload = parse_payload(line[len(_BYTES) :])
            if payload is not None:  # a damaged line must not switch to the other way of counting
                self._payload = (payload.server_read, payload.server_write)
            return {"read", "write"}
        return set()

    def _take_operation(self, place: int, line: bytes) -> set[_Class]:
        found = parse_operation(line)
        if found is None:
            # The label stayed: it is the operation that was here, now damaged.
            holders = {name for name, one in self._operations.items() if place in one}
            for holder in holders:
                del self._operations[holder][place]
            return holders
        op_class = class_of(found[0])
        self._operations.setdefault(op_class, {})[place] = found
        return {op_class}

    def _sum(self, op_class: _Class) -> None:
        found = [one for _, one in self._operations.get(op_class, {}).values()]
        if op_class is None:
            self._retrans[None] = sum(one.retrans for one in found)
            return
        total = counters(found, self._payload_bytes(op_class, found))
        self.counters[op_class] = total
        self._retrans[op_class] = total.retrans or 0

    def _payload_bytes(self, op_class: OpClass, found: list[Operation]) -> int | None:
        """File contents over the wire; what the RPCs carried, headers included, where the kernel
        shows no such count; None for metadata, which has no payload."""
        if op_class == "meta":
            return None
        is_read = op_class == "read"
        if self._payload is not None:
            return self._payload[0 if is_read else 1]
        return sum(one.bytes_recv if is_read else one.bytes_sent for one in found)


def _label(line: bytes) -> bytes:
    """What tells whose line it is, colon included; empty without a colon."""
    return line[: line.find(b":") + 1]


def payload_of(mount: NfsMount) -> str:
    """What ``bytes`` of the mount's rows hold, in words."""
    if mount.payload is not None:
        return "file contents over the wire"
    return "RPC bytes of READ and WRITE, headers included: this kernel shows no bytes line"
