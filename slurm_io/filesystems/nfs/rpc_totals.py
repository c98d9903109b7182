"""/proc/net/rpc/nfs: RPC calls and retransmissions of the network namespace, all servers together.

A retransmission counts here at once, in mountstats only when its operation completes.
"""

from __future__ import annotations

from typing import NamedTuple


class RpcTotals(NamedTuple):
    """The ``rpc`` line, and the count of each procedure by protocol version (2, 3, 4)."""

    calls: int
    retrans: int
    auth_refreshes: int
    procedures: dict[int, tuple[int, ...]]


def parse_rpc_totals(text: str) -> RpcTotals | None:
    """None when there is no ``rpc`` line of three numbers."""
    calls: list[int] = []
    procedures: dict[int, tuple[int, ...]] = {}
    for line in text.splitlines():
        label, *words = line.split() or [""]
        if not all(word.isascii() and word.isdigit() and len(word) <= 20 for word in words):
            continue
        numbers = [int(word) for word in words]
        if label == "rpc" and len(numbers) >= 3:
            calls = numbers[:3]
        elif label in ("proc2", "proc3", "proc4") and numbers:
            # The first number says how many follow.
            procedures[int(label[4])] = tuple(numbers[1 : numbers[0] + 1])
    return RpcTotals(calls[0], calls[1], calls[2], procedures) if calls else None
