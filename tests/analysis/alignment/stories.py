"""Jobs whose throughput drops for a known reason, with the client's latencies beside them.

Time passes in steps of half a second; a *story* says in which seconds something happens.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from slurm_io.analysis.alignment.align import Alignment
from slurm_io.analysis.picture import Picture, take_picture
from slurm_io.analysis.thresholds import Thresholds
from tests.analysis.stand_in import EPOCH_NS, NS, Job, Rank, StandInStore

STEP_S = 0.5
BEGIN = 101  # the second training begins in


def moments(seed: int, seconds: int, every: int = 30) -> tuple[int, ...]:
    """Seconds at which things happen, one in each `every` but never at the same place of it."""
    chance = random.Random(seed)
    first = BEGIN + seconds // 20 + 5
    return tuple(
        start + chance.randrange(every - 6)
        for start in range(first, BEGIN + seconds - every, every)
    )


@dataclass(frozen=True)
class Story:
    """`evicted`: seconds from which a read takes 3 s; `index`: seconds from which something that is
    no storage takes as long; `slow`: seconds in which the client is slow (None: those of the
    reads); `growing`: how much longer the last step is than the first."""

    seconds: int = 1200
    evicted: Collection[int] = ()
    index: Collection[int] = ()
    slow: Collection[int] | None = None
    growing: float = 0.0
    nodes: tuple[str, ...] = ("n1",)
    slow_node: str = "n1"
    pause: str = "lock"
    calls: float | None = 20.0

    def store(self) -> StandInStore:
        """The store, without client rows."""
        ranks = [Rank(place, node, 1000 + 10 * place) for place, node in enumerate(self.nodes)]
        evicted, index = sorted(self.evicted), sorted(self.index)

        def wait(place: int, _: int) -> tuple[float, str]:
            now = ranks[place].now
            if self.nodes[place] != self.slow_node and len(self.nodes) > 1:
                return 0.002, "pipe"
            if evicted and now >= evicted[0]:
                evicted.pop(0)
                return 3.0, "storage"
            if index and now >= index[0]:
                index.pop(0)
                return 3.0, self.pause
            return 0.002, "pipe"

        steps = round(self.seconds / STEP_S / (1 + self.growing / 2))
        for k in range(steps):
            compute = STEP_S * (1 + self.growing * k / steps)
            _together(ranks, k, compute, wait)
        return Job(ranks, calls_per_storage_s=self.calls).store()

    def slow_seconds(self) -> set[int]:
        """Seconds in which the client tells slow reads."""
        if self.slow is not None:
            return set(self.slow)
        return {second + late for second in self.evicted for late in range(3)}


def _together(ranks: Sequence[Rank], k: int, compute: float, wait: object) -> None:
    """One step of all ranks."""
    for place, rank in enumerate(ranks):
        seconds, cause = wait(place, k)  # type: ignore[operator]
        rank.batch(0.5 if k == 0 else seconds, cause, index=k)
        rank.compute(compute, step=False)
    last = max(rank.now for rank in ranks)
    for rank in ranks:
        rank.idle_until(last)
        rank.compute(0.001)


def with_client(
    store: StandInStore,
    slow: Collection[int],
    *,
    node: str = "n1",
    mount: str = "/scratch",
    fstype: str = "nfs4",
    without: Collection[int] = (),
    late_s: int = 0,
    null: bool = False,
) -> StandInStore:
    """Rows of a mount's client for every second: 2 ms, and 45 ms in `slow` seconds."""
    end = (store.nodes[node].meta["end_ts_ns"] - EPOCH_NS) // NS
    for second in range(BEGIN, end + 1):
        if second in without:
            continue
        ms = None if null else 45.0 if second in slow else 2.0 + second % 3 * 0.1
        stamp = second + 1 + late_s
        store.nodes[node].tables["fsclient"].append(
            {
                "ts_ns": EPOCH_NS + stamp * NS, "mono_ns": stamp * NS, "interval_ns": NS,
                "mount": mount, "fstype": fstype, "source": "mountstats", "op_class": "read",
                "ops": 50, "bytes": 50 * 2**20, "rtt_ms": ms, "exe_ms": ms,
            }
        )  # fmt: skip
    return store


def told(story: Story) -> StandInStore:
    """The story's store with its client's rows on the first node."""
    return with_client(story.store(), story.slow_seconds(), node=story.slow_node)


def picture_of(store: StandInStore) -> Picture:
    return take_picture(store, Thresholds())


def alignment_of(store: StandInStore) -> Alignment:
    return picture_of(store).alignment
