"""The connections of one mount, read in turn: a bounded number of files at a time.

A file system may have hundreds of OSTs, each with a file of its own. A pass goes through all of
them; its sums cover for each target the time between its readings in two passes, which are equally
long. A target whose counters went back, or could not be read, gives nothing for that pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from slurm_io.filesystems.client_counters import ClientCounters, OpClass, went_back
from slurm_io.filesystems.lustre.histograms import parse_histograms
from slurm_io.filesystems.lustre.names import Target
from slurm_io.filesystems.lustre.places import Places
from slurm_io.filesystems.lustre.stats import Stats, behind_times, parse_stats
from slurm_io.filesystems.lustre.views import wire_view
from slurm_io.host.kept import KeptFile

Source = Literal["osc+mdc", "rpc_stats"]
Counters = dict[OpClass, ClientCounters]

MOST_KEPT = 64  # descriptors; with more targets each file is opened for its reading
_ZERO: dict[Source, Counters] = {
    "osc+mdc": {
        "read": ClientCounters(ops=0, bytes=0, rtt_ns=0),
        "write": ClientCounters(ops=0, bytes=0, rtt_ns=0),
        "meta": ClientCounters(ops=0, rtt_ns=0),
    },
    # Sizes are powers of two there, so bytes are not to be had; of metadata there is nothing.
    "rpc_stats": {"read": ClientCounters(ops=0), "write": ClientCounters(ops=0)},
}


class TargetReading:
    """Counters of one target as of its last reading.

    Attributes:
        restarts: how often they went back.
        active: sum and samples of req_active, the RPCs in flight whenever one was sent.
        unread_lines: damaged lines of the last reading.
    """

    def __init__(self, file: KeptFile, source: Source) -> None:
        self.restarts = 0
        self.active = (0, 0)
        self.unread_lines = 0
        self._file = file
        self._source = source
        self._tail_hash: int | None = None
        self._last: Counters | None = None
        self._waited = 0

    def read(self, keep: bool) -> Counters:
        """What was counted since the last reading; empty when nothing was, at the first one, and
        when there is no knowing."""
        content = self._file.read()
        if not keep:
            self._file.close()
        if content is None:
            self._last = self._tail_hash = None
            return {}
        tail_hash = hash(behind_times(content))
        if tail_hash == self._tail_hash:
            return {}
        self._tail_hash = tail_hash
        before = self._last
        now = self._last = self._parse(content, before)
        if before is None:
            return {}
        if any(went_back(before[op_class], now[op_class]) for op_class in now):
            self.restarts += 1
            return {}
        return {op_class: _minus(now[op_class], before[op_class]) for op_class in now}

    def close(self) -> None:
        """Give the descriptor back."""
        self._file.close()

    def _parse(self, content: bytes, before: Counters | None) -> Counters:
        if self._source == "rpc_stats":
            return _by_pages(content)
        stats = parse_stats(content)
        found = wire_view(stats)
        self.active, self.unread_lines = _active(stats), stats.unread_lines
        # What is left for `meta` may shrink by an RPC that ended while the file was written.
        waited, self._waited = self._waited, stats.samples("req_waittime")
        if before is not None and self._waited >= waited:
            found["meta"] = _not_below(before["meta"], found["meta"])
        return found


class WireReading:
    """All targets of one mount.

    Attributes:
        source: where the counters come from; None when they cannot be read.
        reason: why that is not osc and mdc stats; "" when it is.
        totals: what was counted since the first pass, by class.
    """

    def __init__(self, targets: Sequence[Target], places: Places) -> None:
        self.source, self.reason, files = _find(targets, places)
        self.totals: Counters = dict(_ZERO[self.source]) if self.source else {}
        self._readings = [TargetReading(file, self.source) for file in files if self.source]
        self._keep = len(files) <= MOST_KEPT
        self._next = 0
        for reading in self._readings:
            reading.read(self._keep)

    @property
    def restarts(self) -> int:
        """How often a target's counters went back."""
        return sum(reading.restarts for reading in self._readings)

    @property
    def unread_lines(self) -> int:
        """Damaged lines of the last readings."""
        return sum(reading.unread_lines for reading in self._readings)

    @property
    def active(self) -> tuple[int, int]:
        """Sum and samples of RPCs in flight, since the mount, over all targets."""
        sums = [reading.active for reading in self._readings]
        return sum(one[0] for one in sums), sum(one[1] for one in sums)

    def read(self, most: int) -> bool:
        """Read at most `most` files; True when that ends a pass and `totals` may be taken."""
        end = min(self._next + most, len(self._readings))
        for reading in self._readings[self._next : end]:
            self._add(reading.read(self._keep))
        self._next = end if end < len(self._readings) else 0
        return bool(self._readings) and self._next == 0

    def close(self) -> None:
        """Give the descriptors back."""
        for reading in self._readings:
            reading.close()

    def _add(self, found: Counters) -> None:
        for op_class, more in found.items():
            before = self.totals[op_class]
            pairs = list(zip(before, more, strict=True))
            # A sum that cannot be told once must not be missing in all that follow.
            if all(new is not None for old, new in pairs if old is not None):
                sums = (None if old is None else old + (new or 0) for old, new in pairs)
                self.totals[op_class] = ClientCounters(*sums)


def _find(targets: Sequence[Target], places: Places) -> tuple[Source | None, str, list[KeptFile]]:
    if not targets:
        return None, "the mount's connections (osc, mdc) are not visible", []
    files = _readable(targets, places, "stats")
    if files:
        return "osc+mdc", "", files
    missing = f"{targets[0].kind}/{targets[0].name}/stats"
    reason = f"{missing} {places.why_missing(missing)}"
    files = _readable(targets, places, "rpc_stats")
    return ("rpc_stats" if files else None), reason, files


def _readable(targets: Sequence[Target], places: Places, name: str) -> list[KeptFile]:
    files = []
    for one in targets:
        file = places.find(f"{one.kind}/{one.name}/{name}")
        if file is not None:
            files.append(file)
            if len(targets) > MOST_KEPT:
                file.close()
    return files


def _by_pages(content: bytes) -> Counters:
    """RPCs of rpc_stats: each read and write stands in one row of the table of sizes."""
    table = parse_histograms(content.decode("utf-8", "replace")).table("pages per rpc")
    return {
        "read": ClientCounters(ops=0 if table is None else table.total("read")),
        "write": ClientCounters(ops=0 if table is None else table.total("write")),
    }


def _active(stats: Stats) -> tuple[int, int]:
    found = stats.counters.get("req_active")
    return (0, 0) if found is None or found.sum is None else (found.sum, found.samples)


def _minus(now: ClientCounters, before: ClientCounters) -> ClientCounters:
    pairs = zip(now, before, strict=True)
    return ClientCounters(*(None if a is None or b is None else a - b for a, b in pairs))


def _not_below(before: ClientCounters, now: ClientCounters) -> ClientCounters:
    pairs = zip(before, now, strict=True)
    return ClientCounters(*(b if a is None or b is None else max(a, b) for a, b in pairs))
