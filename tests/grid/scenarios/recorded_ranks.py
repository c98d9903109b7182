"""Recorded: jobs of more nodes and other shapes than one machine can run."""

from __future__ import annotations

from dataclasses import replace

from tests.analysis.stand_in import Rank, StandInStore, train
from tests.grid.model import CHECKPOINT, F01, STORAGE, Recorded
from tests.grid.recordings import (
    Cost,
    ranks_on,
    replace_rows,
    store_of,
    train_in_lockstep,
)

FAST: Cost = (0.001, "cpu")
HANDED_OVER: Cost = (0.002, "pipe")
F04 = frozenset({"F04"})


def one_slow_node() -> tuple[StandInStore, float]:
    """Eight nodes of two ranks; the fifth one's reads take 60 ms."""
    ranks = ranks_on(8, 2, workers=2)

    def wait(rank: Rank, k: int) -> Cost:
        return (0.062, "storage") if rank.node == "n5" else HANDED_OVER

    truth = train_in_lockstep(ranks, 500, lambda k: 0.08, wait)
    return store_of(ranks), truth


def every_rank_in_turn() -> tuple[StandInStore, float]:
    """Four ranks, each slow at every fourth step: all together the job is slow at every step."""
    ranks = ranks_on(2, 2, workers=2)

    def wait(rank: Rank, k: int) -> Cost:
        return (0.052, "storage") if k % 4 == rank.number else HANDED_OVER

    truth = train_in_lockstep(ranks, 600, lambda k: 0.08, wait)
    return store_of(ranks), truth


def independent_ranks() -> tuple[StandInStore, float]:
    """Two trainings side by side, of other step times; one of them waits half its time."""
    slow, fast = ranks_on(1, 2)
    train(slow, 500, 0.05, lambda k: (0.05, "storage"))
    train(fast, 700, 0.073, lambda k: FAST)
    lost_s = 499 * 0.05
    window_s = (slow.now - 100.5) + (fast.now - 100.5)
    return store_of([slow, fast]), lost_s / window_s


def a_missing_node() -> tuple[StandInStore, float]:
    """Three nodes were in the job and one of them never delivered anything."""
    ranks = ranks_on(2, 2)
    truth = train_in_lockstep(ranks, 400, lambda k: 0.06, lambda rank, k: (0.04, "storage"))
    store = store_of(ranks)
    assert store.job is not None
    names = ("n1", "n2", "n3")
    job = replace(store.job, nodes=names)
    return StandInStore(job, store.nodes, names, store.extra), truth


def one_node_saves_all() -> tuple[StandInStore, float]:
    """Four nodes of two ranks; rank 0 saves 4 GB in 10 s every 150 steps, the others wait."""
    ranks = ranks_on(4, 2)

    def save(rank: Rank, k: int) -> float:
        return 10.0 if rank.number == 0 and k % 150 == 149 else 0.0

    truth = train_in_lockstep(ranks, 700, lambda k: 0.1, lambda rank, k: FAST, save)
    store = store_of(ranks)
    for row in store.nodes["n1"].tables["process"]:
        row |= {"pid": ranks[0].pid, "role": "rank", "write_bytes": 0, "wchar_bytes": 0}
    saves = [one for one in store.nodes["n1"].tables["events"] if one["kind"] == "ckpt_save"]
    for event in saves:
        _write(store, event["mono_ns"], event["end_mono_ns"], event["bytes"])
    for node in ("n2", "n3", "n4"):
        for row in store.nodes[node].tables["process"]:
            row |= {"write_bytes": 0, "wchar_bytes": 0}
    return store, truth


def _write(store: StandInStore, start_ns: int, end_ns: int, n_bytes: int) -> None:
    inside = [
        row
        for row in store.nodes["n1"].tables["process"]
        if start_ns < row["mono_ns"] <= end_ns and row["rank"] == 0
    ]
    for row in inside:
        row |= {"write_bytes": n_bytes // len(inside), "wchar_bytes": n_bytes // len(inside)}


def fast_and_local() -> tuple[StandInStore, float]:
    """Decoy: sixteen nodes, nothing waits for anything."""
    ranks = ranks_on(16, 1)
    truth = train_in_lockstep(ranks, 300, lambda k: 0.1, lambda rank, k: FAST)
    store = store_of(ranks)
    for node in store.nodes:
        replace_rows(store, "fsclient", lambda second: [], node)
    return store, truth


SCENARIOS = (
    Recorded(
        name="recorded-one-slow-node-of-8",
        why=(one_slow_node.__doc__ or "").strip(),
        make=one_slow_node,
        verdicts=STORAGE,
        fired=F01 | {"F15"},
        quiet=F04,
        named={"nodes": "n5"},
    ),
    Recorded(
        name="recorded-ranks-in-turn",
        why=(every_rank_in_turn.__doc__ or "").strip(),
        make=every_rank_in_turn,
        verdicts=STORAGE,
        fired=F01,
        quiet=F04 | {"F15"},
    ),
    Recorded(
        name="recorded-independent-ranks",
        why=(independent_ranks.__doc__ or "").strip(),
        make=independent_ranks,
        verdicts=STORAGE,
        fired=F01,
        quiet=F04,
    ),
    Recorded(
        name="recorded-missing-node",
        why=(a_missing_node.__doc__ or "").strip(),
        make=a_missing_node,
        verdicts=STORAGE,
        fired=F01,
        quiet=F04 | {"F15"},
    ),
    Recorded(
        name="recorded-one-node-saves",
        why=(one_node_saves_all.__doc__ or "").strip(),
        make=one_node_saves_all,
        verdicts=CHECKPOINT,
        fired=frozenset({"F03", "F04"}),
        quiet=F01,
        named={"nodes": "n1"},
    ),
    Recorded(
        name="recorded-nothing-wrong",
        why=(fast_and_local.__doc__ or "").strip(),
        make=fast_and_local,
        verdicts=frozenset({"healthy"}),
        quiet=F01 | F04,
        decoy=True,
    ),
)
