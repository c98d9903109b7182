"""``xprt:`` lines of mountstats: one for each connection to the server.

Numbers by protocol (net/sunrpc/xprtsock.c, xprtrdma/transport.c)::

    tcp    srcport binds connects connect_time idle sends recvs bad_xids req_u bklog_u
           [max_slots sending_u pending_u]
    udp    srcport binds sends recvs bad_xids req_u bklog_u [max_slots sending_u pending_u]
    local  binds connects connect_time idle sends recvs bad_xids req_u bklog_u [as tcp]
    rdma   as tcp up to bklog_u, then counters of its own (10 on 4.x kernels, 17 later)

All mounts of one server share its connections and show the same lines: never add them up over
mounts. ``*_u`` are sums over sends of a queue's length at that moment. The unit of connect_time
changed from jiffies to seconds; it is not read.
"""

from __future__ import annotations

from typing import NamedTuple

_LARGEST = 1 << 63
# Where binds stands, where sends stands, and whether connects lies between.
_SHAPES = {"tcp": (1, 5, True), "rdma": (1, 5, True), "local": (0, 4, True), "udp": (1, 2, False)}


class Transport(NamedTuple):
    """One connection since it was set up. `max_slots` is the most requests that were ever given a
    place at once; None where the protocol does not say. `connects` None: it has no connection."""

    protocol: str
    source_port: int | None
    connects: int | None
    sends: int
    recvs: int
    bad_xids: int
    requests_sum: int
    backlog_sum: int
    max_slots: int | None
    sending_sum: int | None
    pending_sum: int | None

    @property
    def unanswered(self) -> int:
        """Transmissions without a reply. A reply that came twice (bad_xids) answers the second
        transmission of its request, so only what a broken connection swallowed is too much."""
        return max(0, self.sends - self.recvs - self.bad_xids)


def parse_transport(text: bytes) -> Transport | None:
    """What follows ``xprt:``; None for an unknown protocol or a damaged line."""
    words = text.split()
    protocol = words[0].decode("ascii", "replace") if words else ""
    shape = _SHAPES.get(protocol)
    if shape is None:
        return None
    try:
        numbers = [int(word) for word in words[1:]]
        return _transport(protocol, numbers, *shape)
    except (ValueError, IndexError):
        return None


def _transport(
    protocol: str, numbers: list[int], binds_at: int, sends_at: int, connects: bool
) -> Transport | None:
    sends, recvs, bad_xids, requests_sum, backlog_sum = counted = numbers[sends_at : sends_at + 5]
    if any(not 0 <= value < _LARGEST for value in counted):
        return None
    slots: list[int | None] = [None, None, None]
    if protocol != "rdma" and len(numbers) >= sends_at + 8:
        slots = [*numbers[sends_at + 5 : sends_at + 8]]
    return Transport(
        protocol,
        numbers[0] if binds_at else None,
        numbers[binds_at + 1] if connects else None,
        sends,
        recvs,
        bad_xids,
        requests_sum,
        backlog_sum,
        *slots,
    )
