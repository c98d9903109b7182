"""Made-up jobs for recorded scenarios, and their true share of storage.

Built on the analysis tests' stand-in: ranks that compute, wait and save as they are told, on a
clock of their own. The truth is added up from what they were told, by the rule of
`tests.labs.train.storage_idle_share`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.analysis.rules.stores import Row, put, with_healthy_tables
from tests.analysis.stand_in import Job, Rank, StandInStore

HANDOVER_S = 0.002
Cost = tuple[float, str]
"""Seconds of a wait and its cause."""


def ranks_on(nodes: int, each: int, workers: int = 0) -> list[Rank]:
    """`each` ranks on each node, numbered as Slurm numbers them."""
    return [
        Rank(node * each + local, f"n{node + 1}", 1000 * (node + 1) + 10 * local, workers=workers)
        for node in range(nodes)
        for local in range(each)
    ]


def train_in_lockstep(
    ranks: Sequence[Rank],
    steps: int,
    compute_s: Callable[[int], float],
    wait: Callable[[Rank, int], Cost],
    save: Callable[[Rank, int], float] | None = None,
) -> float:
    """Every rank waits and computes, then all meet; returns the true share of storage.

    `save`: seconds a rank stands still for a checkpoint behind step k.
    """
    lost_s, start_s = 0.0, 0.0
    for k in range(steps):
        waits = [wait(rank, k) if k else (0.5, "pipe") for rank in ranks]
        for rank, (seconds, cause) in zip(ranks, waits, strict=True):
            rank.batch(seconds, cause, index=k)
        start_s = start_s or ranks[0].now
        for rank in ranks:
            rank.compute(compute_s(k), step=False)
        _meet(ranks)
        for rank in ranks:
            rank.compute(0.001)
        lost_s += max(_of_storage(rank, one) for rank, one in zip(ranks, waits, strict=True))
        lost_s += _save(ranks, k, save)
    return lost_s / (max(rank.now for rank in ranks) - start_s)


def _of_storage(rank: Rank, cost: Cost) -> float:
    seconds, cause = cost
    return max(0.0, seconds - HANDOVER_S * bool(rank.workers)) if cause == "storage" else 0.0


def _save(ranks: Sequence[Rank], k: int, save: Callable[[Rank, int], float] | None) -> float:
    """How long the longest save behind step `k` took; the others wait for it."""
    if save is None:
        return 0.0
    taken = [save(rank, k) for rank in ranks]
    for rank, seconds in zip(ranks, taken, strict=True):
        if seconds:
            n_bytes = int(seconds * 400e6)
            path = f"/scratch/ckpt/step{k}-rank{rank.number}.pt"
            rank.event("ckpt_save", seconds, bytes=n_bytes, path=path)
    if any(taken):
        _meet(ranks)
    return max(taken)


def _meet(ranks: Sequence[Rank]) -> None:
    last = max(rank.now for rank in ranks)
    for rank in ranks:
        rank.idle_until(last)


def store_of(ranks: Sequence[Rank], **settings: object) -> StandInStore:
    """The job's store, with rows of every other table in which nothing is wrong."""
    store = with_healthy_tables(Job(list(ranks), **settings).store())  # type: ignore[arg-type]
    for node in store.nodes.values():
        del node.tables["stacks"]  # those are of one certain rank
    return store


def replace_rows(
    store: StandInStore, table: str, row: Callable[[int], Row | list[Row]], node: str
) -> None:
    """`row(second of the node's clock)` in place of what `table` says of `node`."""
    store.nodes[node].tables[table] = []
    put(store, table, row, node=node)


def second_of(rank: Rank) -> int:
    """The row that covers this moment of the rank."""
    return int(rank.now) + 1
