"""Groups of ranks that meet in collectives, told in detail: work of their own, several batches a
step, meetings at every batch or every step, and what was lost by the definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.analysis.stand_in import NS, Rank

Of = Callable[[int, int], float]  # (place in the group, batch) -> seconds


@dataclass
class Truth:
    """What a group lost, in seconds of one GPU: time with the waits less time without them."""

    with_waits_s: float = 0.0
    without_s: float = 0.0
    holders: list[int] = field(default_factory=list)

    @property
    def lost_s(self) -> float:
        return self.with_waits_s - self.without_s


def nothing(place: int, batch: int) -> float:
    return 0.0


def meet(
    ranks: Sequence[Rank],
    steps: int,
    compute: Of,
    wait: Of = nothing,
    *,
    cause: str = "storage",
    batches: int = 1,
    meets_each_batch: bool = False,
    first_step: int = 0,
    update_s: float = 0.001,
) -> Truth:
    """Train `steps` steps of `batches` batches; the first batch of all is start-up and costs
    nothing in the truth."""
    truth = Truth()
    number = first_step * batches
    for step in range(first_step, first_step + steps):
        began = [rank.now for rank in ranks]
        free = [0.0 for _ in ranks]
        opened_s = 0.0
        for part in range(batches):
            waits = [wait(place, number) for place, _ in enumerate(ranks)]
            for place, rank in enumerate(ranks):
                is_first = not rank.rows
                waited = 0.5 if is_first else waits[place]
                opened_s = max(opened_s, 0.5 if is_first else 0.0)
                rank.batch(waited, cause, index=len(rank.rows))
                rank.compute(compute(place, number), step=False)
                free[place] += compute(place, number)
            if meets_each_batch or part == batches - 1:
                last = max(rank.now for rank in ranks)
                for rank in ranks:
                    rank.idle_until(last)
                truth.without_s += max(free)
                free = [0.0 for _ in ranks]
            number += 1
        truth.with_waits_s += max(rank.now for rank in ranks) - max(began) - opened_s
        truth.holders.append(max(range(len(ranks)), key=lambda place: wait(place, step * batches)))
        for rank in ranks:
            rank.compute(update_s)
    return truth


def ranks_on(count: int, nodes: int = 1, first: int = 0, **settings: Any) -> list[Rank]:
    """`count` ranks on `nodes` nodes, numbered from `first`, without workers unless told."""
    settings = {"workers": 0, **settings}
    per_node = -(-count // nodes)
    return [
        Rank(first + number, f"n{number // per_node + 1}", 1000 + 10 * (first + number), **settings)
        for number in range(count)
    ]


def skew(rank: Rank, seconds: float) -> None:
    """The UTC clock of this rank's node is fast by so much."""
    for row in (*rank.rows, *rank.events):
        row["ts_ns"] += round(seconds * NS)
