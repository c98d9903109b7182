"""The state of one mount's connections: what is in flight, and the outages it saw.

Looked at in turn like the counters (:mod:`slurm_io.filesystems.lustre.wire`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from slurm_io.filesystems.client_counters import OpClass
from slurm_io.filesystems.lustre.imports import (
    HEALTHY,
    Glance,
    Outage,
    glance,
    outages,
    parse_state_history,
)
from slurm_io.filesystems.lustre.names import Target
from slurm_io.filesystems.lustre.places import Places
from slurm_io.filesystems.lustre.wire import MOST_KEPT
from slurm_io.host.kept import KeptFile

_READ = re.compile(rb"^read RPCs in flight:\s*(\d{1,9})\s*$", re.MULTILINE)
_WRITE = re.compile(rb"^write RPCs in flight:\s*(\d{1,9})\s*$", re.MULTILINE)
_MOST_OUTAGES = 64  # of one target; the oldest are dropped
_MOST_INFLIGHT = 1 << 24  # tens of thousands of OSTs with 512 each: more is no number of RPCs

Inflight = dict[OpClass, int | None]


class TargetOutage(NamedTuple):
    """One outage of one target, named as Lustre's messages do (``lustrefs-OST0003``)."""

    target: str
    outage: Outage


class TargetState:
    """One connection. `inflight` has None for what cannot be read: reads and writes are told by
    rpc_stats (of an mdc, those of data on the MDT), all RPCs together by import."""

    def __init__(self, target: Target, places: Places) -> None:
        folder = f"{target.kind}/{target.name}"
        self.target = target
        self.inflight: Inflight = {}
        self._import = places.find(f"{folder}/import")
        self._history = places.find(f"{folder}/state")
        self._rpcs = places.find(f"{folder}/rpc_stats")
        self._last: Glance | None = None
        self._seen: list[tuple[float, str]] = []
        self._outages: dict[float, Outage] = {}

    @property
    def is_readable(self) -> bool:
        """Whether its state can be looked at."""
        return self._import is not None

    @property
    def tells_rpcs(self) -> bool:
        """Whether reads and writes in flight can be told."""
        return self._rpcs is not None

    @property
    def outages(self) -> list[TargetOutage]:
        """All that were noted, oldest first."""
        found = sorted(self._outages.items())
        return [TargetOutage(self.target.short, outage) for _, outage in found]

    def look(self, now_s: float, since_s: float, keep: bool) -> None:
        """Read the state of now; when it is another one, note the outages since `since_s`."""
        content = _read(self._import, keep)
        now = Glance(None, None, None, None) if content is None else glance(content)
        before, self._last = self._last, now
        if now.state is not None and (before is None or before[:3] != now[:3]):
            self._note(now_s, since_s, now.state, keep)
        rpcs = _read(self._rpcs, keep) or b""
        self._count(_number(_READ, rpcs), _number(_WRITE, rpcs), now.inflight)

    def close(self) -> None:
        """Give the descriptors back."""
        for file in (self._import, self._history, self._rpcs):
            if file is not None:
                file.close()

    def _count(self, reads: int | None, writes: int | None, rpcs: int | None) -> None:
        """An osc has little but reads and writes; an mdc before 2.12 has none of them."""
        if self.target.kind == "osc":
            self.inflight = {"read": reads, "write": writes}
            return
        others = None if rpcs is None else max(0, rpcs - (reads or 0) - (writes or 0))
        self.inflight = {"read": reads or 0, "write": writes or 0, "meta": others}

    def _note(self, now_s: float, since_s: float, state: str, keep: bool) -> None:
        history = _read(self._history, keep)
        if history is None:
            self._seen = [*self._seen[-15:], (now_s, state)]
            entries = self._seen
        else:
            entries = [*parse_state_history(history.decode("utf-8", "replace"))]
        for outage in outages(entries):
            if outage.until_s is None or outage.until_s >= since_s:
                self._outages[outage.from_s] = outage
        while len(self._outages) > _MOST_OUTAGES:
            del self._outages[min(self._outages)]
        if state in HEALTHY:  # what the history no longer holds the end of has ended by now
            for from_s, outage in self._outages.items():
                if outage.until_s is None:
                    self._outages[from_s] = outage._replace(until_s=now_s)


class States:
    """All connections of one mount."""

    def __init__(self, targets: Sequence[Target], places: Places) -> None:
        self._states = [TargetState(target, places) for target in targets]
        self._keep = len(targets) * 3 <= MOST_KEPT
        self._next = 0
        self._since_s: float | None = None
        if not self._keep:
            self.close()

    @property
    def is_readable(self) -> bool:
        """Whether any connection's state can be looked at."""
        return any(state.is_readable for state in self._states)

    @property
    def tells_rpcs(self) -> bool:
        """Whether reads and writes in flight can be told, of every OST."""
        return all(state.tells_rpcs for state in self._states if state.target.kind == "osc")

    @property
    def outages(self) -> list[TargetOutage]:
        """All that were seen."""
        return [outage for state in self._states for outage in state.outages]

    def look(self, now_s: float, most: int) -> None:
        """Look at the next `most` connections; at all of them the first time."""
        if self._since_s is None:
            self._since_s, most = now_s, len(self._states)
        end = min(self._next + most, len(self._states))
        for state in self._states[self._next : end]:
            state.look(now_s, self._since_s, self._keep)
        self._next = end if end < len(self._states) else 0

    def inflight(self, op_class: OpClass) -> int | None:
        """RPCs in flight over all connections as last looked at; None when one cannot be told."""
        numbers = [one.inflight[op_class] for one in self._states if op_class in one.inflight]
        known = [number for number in numbers if number is not None]
        total = sum(known) if numbers and len(known) == len(numbers) else None
        return None if total is None or total > _MOST_INFLIGHT else total

    def close(self) -> None:
        """Give the descriptors back."""
        for state in self._states:
            state.close()


def _read(file: KeptFile | None, keep: bool) -> bytes | None:
    content = None if file is None else file.read()
    if file is not None and not keep:
        file.close()
    return content


def _number(pattern: re.Pattern[bytes], content: bytes) -> int | None:
    found = pattern.search(content)
    return None if found is None else int(found[1])
