"""How many requests wait for a server's reply, from the counters of its connections.

mountstats counts an operation when it has completed, so a hung server shows as counters that stand
still. Only the connections know what was sent: sends - recvs. Of that a part is no waiting request:
a transmission that a broken connection swallowed never gets its reply, the request was sent anew.
This loss stays in the difference for ever, so it is told apart and taken off.
"""

from __future__ import annotations

from collections.abc import Sequence

from slurm_io.filesystems.nfs.transports import Transport

_MOST_WAITING = 1 << 24  # 256 connections with 65536 slots each: more cannot wait


class WaitingRequests:
    """Requests in flight to one server, all its connections together.

    While each connection is its first one nothing is lost. After that the loss is bounded from what
    is known at each reading: it is at most what is unanswered; it grows by no more than the
    retransmissions that completed since; and after a reconnection, when everything that waits is
    sent again, what is not accounted for by new sends is lost.

    At the first reading a server whose connections were made anew before (an idle one closes after
    five minutes) may have losses of before: all that is unanswered then counts as loss until it is
    answered.
    """

    def __init__(self) -> None:
        self._lost: int | None = None
        self._retrans = 0
        self._connects = 0
        self._sends = 0

    def update(self, transports: Sequence[Transport], retrans: int) -> int | None:
        """Requests in flight now; None when no connection could be read, or a number that
        cannot be.

        Args:
            transports: all connections of the server, once.
            retrans: retransmissions so far of all mounts of the server.
        """
        unanswered = sum(transport.unanswered for transport in transports)
        if not transports or unanswered > _MOST_WAITING:
            return None
        connects = sum(transport.connects or 0 for transport in transports)
        sends = sum(transport.sends for transport in transports)
        if not _may_have_lost(transports):
            lost = 0
        elif self._lost is None or sends < self._sends:
            lost = unanswered
        else:
            lost = min(unanswered, self._lost + max(0, retrans - self._retrans))
            if connects > self._connects:
                lost = max(lost, unanswered - (sends - self._sends))
        self._lost, self._retrans = lost, retrans
        self._connects, self._sends = connects, sends
        return unanswered - lost


def _may_have_lost(transports: Sequence[Transport]) -> bool:
    """True unless each connection still is its first one. UDP has none and loses at will."""
    return any(transport.connects is None or transport.connects > 1 for transport in transports)
