"""Per-op lines of mountstats, and their sums as the three classes of the fsclient table.

    READ: ops ntrans timeouts bytes_sent bytes_recv queue_ms rtt_ms exe_ms [errors]

Eight numbers with RPC iostats 1.0, nine with 1.1. An operation counts when it has completed. Times
are the kernel's signed milliseconds printed as unsigned: one that went below zero reads as almost
2^64 and is worth nothing (net/sunrpc/stats.c).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from slurm_io.filesystems.client_counters import ClientCounters, OpClass

_LARGEST = 1 << 63
_NS_PER_MS = 1_000_000

_READ = frozenset({"READ", "READ_PLUS"})
_WRITE = frozenset({"WRITE"})
# The client's and server's own dealings: they go on while no application asks for anything.
_HOUSEKEEPING = frozenset(
    {
        "NULL", "RENEW", "SEQUENCE", "SETCLIENTID", "SETCLIENTID_CONFIRM", "EXCHANGE_ID",
        "CREATE_SESSION", "DESTROY_SESSION", "DESTROY_CLIENTID", "RECLAIM_COMPLETE",
        "BIND_CONN_TO_SESSION", "GET_LEASE_TIME", "SECINFO", "SECINFO_NO_NAME", "FSID_PRESENT",
        "LAYOUTSTATS", "LAYOUTERROR",
    }
)  # fmt: skip


class Operation(NamedTuple):
    """Totals of one operation. A time is None when the kernel prints an impossible one; `errors` is
    None with RPC iostats 1.0."""

    ops: int
    ntrans: int
    timeouts: int
    bytes_sent: int
    bytes_recv: int
    queue_ms: int | None
    rtt_ms: int | None
    exe_ms: int | None
    errors: int | None

    @property
    def retrans(self) -> int:
        """Transmissions beyond the first. Older kernels can show fewer than operations: none."""
        return max(0, self.ntrans - self.ops)


# Most operations of most mounts were never used: a hundred mounts need not hold thousands of them.
_NEVER, _NEVER_1_0 = Operation(*(0,) * 9), Operation(*(0,) * 8, None)
_SHARED = {one: one for one in (_NEVER, _NEVER_1_0)}


def parse_operation(line: bytes) -> tuple[str, Operation] | None:
    """Name and counters of one line; None when it is none or its counts are impossible."""
    name, colon, rest = line.partition(b":")
    words = rest.split()
    if not colon or len(words) < 8:
        return None
    try:
        ops, ntrans, timeouts, sent, recv, queue, rtt, exe, *more = map(int, words[:9])
    except ValueError:
        return None
    errors = more[0] if more else None
    if min(ops, ntrans, timeouts, sent, recv, errors or 0) < 0:
        return None
    if max(ops, ntrans, timeouts, sent, recv, errors or 0) >= _LARGEST:
        return None
    found = Operation(
        ops, ntrans, timeouts, sent, recv, _possible(queue), _possible(rtt), _possible(exe), errors
    )
    return sys.intern(name.strip().decode("ascii", "replace")), _SHARED.get(found, found)


def _possible(time_ms: int) -> int | None:
    return time_ms if 0 <= time_ms < _LARGEST else None


def class_of(name: str) -> OpClass | None:
    """Class of an operation; None for housekeeping. An operation the kernel has no name for (it
    prints its number) is the application's."""
    if name in _READ:
        return "read"
    if name in _WRITE:
        return "write"
    return None if name in _HOUSEKEEPING else "meta"


def counters(operations: Sequence[Operation], payload_bytes: int | None) -> ClientCounters:
    """Sum of the operations of one class. A total is None when one of them does not have it."""
    if not operations:
        return ClientCounters(0, payload_bytes, 0, 0, 0, 0, None)
    used = [one for one in operations if one is not _NEVER and one is not _NEVER_1_0]
    used = used or list(operations[:1])
    ops, ntrans, _, _, _, queue_ms, rtt_ms, exe_ms, errors = zip(*used, strict=True)
    return ClientCounters(
        ops=sum(ops),
        bytes=payload_bytes,
        rtt_ns=_total_ns(rtt_ms),
        exe_ns=_total_ns(exe_ms),
        queue_ns=_total_ns(queue_ms),
        retrans=sum(sent - done for sent, done in zip(ntrans, ops, strict=True) if sent > done),
        errors=None if None in errors else sum(errors),
    )


def _total_ns(times_ms: tuple[int | None, ...]) -> int | None:
    return None if None in times_ms else sum(filter(None, times_ms)) * _NS_PER_MS
