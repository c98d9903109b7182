"""Remembers for some seconds what a polled descriptor is, since idle workers poll all the time."""

from __future__ import annotations

from slurm_io.collectors.waits.fds import FdKind, FdReader

_POLL_KEPT_NS = 3_000_000_000
_MOST_KEPT = 4096


class RememberedDescriptors:
    """:class:`FdReader` with a memory for poll calls. Set `now_ns` before each pass."""

    def __init__(self, fds: FdReader) -> None:
        self._fds = fds
        self.now_ns = 0
        self._polled: dict[tuple[int, int], tuple[int, list[int]]] = {}
        self._kinds: dict[tuple[int, int], tuple[int, FdKind | None]] = {}

    def kind(self, pid: int, fd: int) -> FdKind | None:
        """What a descriptor is; asked anew each time, since numbers are reused at once."""
        kept = self._kinds.get((pid, fd))
        if kept is not None and self.now_ns < kept[0]:
            return kept[1]
        return self._fds.kind(pid, fd)

    def polled(self, pid: int, address: int, count: int) -> list[int]:
        """Descriptors of a poll call at this address, and their kinds, for a few seconds."""
        kept = self._polled.get((pid, address))
        if kept is not None and self.now_ns < kept[0]:
            return kept[1]
        if len(self._polled) + len(self._kinds) >= _MOST_KEPT:
            self._polled.clear()
            self._kinds.clear()
        fds = self._fds.polled(pid, address, count)
        until_ns = self.now_ns + _POLL_KEPT_NS
        self._polled[pid, address] = (until_ns, fds)
        for fd in fds:
            self._kinds[pid, fd] = (until_ns, self._fds.kind(pid, fd))
        return fds
