"""A job of several passes over its data, with the process table a sampler would have written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.analysis.stand_in import EPOCH_NS, NS, Job, Rank, StandInStore, one_rank

MIB = 2**20


@dataclass(frozen=True)
class Pass:
    """One pass: what a batch waits, and what all workers together do for it."""

    wait_s: float = 0.001
    asked: int | None = 2 * MIB
    read: int | None = 0
    cpu_ns: int = 20 * 10**6
    majflt: int = 0


COLD = Pass(wait_s=0.1, read=2 * MIB)
WARM = Pass()


def passes_job(
    passes: Sequence[Pass],
    *,
    batches: int = 100,
    compute_s: float = 0.1,
    workers: int = 2,
    fstype: str = "ext4",
    restarted: bool = False,
    unseen_s: int = 0,
    calls_counted: bool = True,
) -> StandInStore:
    """Rank 0 makes `passes`, each of `batches`. With `restarted` workers have a pid of their own in
    each pass, and their first `unseen_s` seconds are not in the table."""
    rank = one_rank(workers)
    spans = []
    for epoch, one in enumerate(passes):
        begun = rank.now
        for k in range(batches):
            rank.batch(0.2 if k == 0 else one.wait_s, _cause(one), epoch=epoch, index=k)
            rank.compute(compute_s)
        spans.append((begun, rank.now))
    store = Job([rank], fstype=fstype).store()
    node = store.nodes["n1"]
    node.meta["loaders"] = [{"pid": rank.pid, "rank": 0, "id": 0, "num_workers": workers}]
    node.meta["mounts"] = [{"mount": "/scratch", "fstype": fstype}]
    node.tables["process"] = [
        row
        for epoch, (one, span) in enumerate(zip(passes, spans, strict=True))
        for worker in range(max(workers, 1))
        for row in _rows(
            rank,
            _each(one, batches, span, workers),
            span,
            worker,
            epoch if restarted else 0,
            unseen_s,
        )
    ]
    if not calls_counted:
        for row in node.tables["process"]:
            row["syscr"] = None
    return store


def _each(one: Pass, batches: int, span: tuple[float, float], workers: int) -> Pass:
    """What one worker does in a second."""
    scale = batches / (span[1] - span[0]) / max(workers, 1)

    def scaled(value: int | None) -> int | None:
        return None if value is None else round(value * scale)

    return Pass(one.wait_s, scaled(one.asked), scaled(one.read), round(one.cpu_ns * scale),
                round(one.majflt * scale))  # fmt: skip


def _cause(one: Pass) -> str:
    return "storage" if one.wait_s >= 0.05 else "pipe"


def _rows(
    rank: Rank, one: Pass, span: tuple[float, float], worker: int, life: int, unseen_s: int
) -> list[dict[str, Any]]:
    """Second by second, on the whole seconds of the node's clock as a sampler's grid is."""
    begun, ended = span
    return [
        {
            "ts_ns": EPOCH_NS + second * NS, "mono_ns": second * NS, "interval_ns": NS,
            "pid": 2000 + 10 * life + worker, "starttime": 1 + life, "rank": 0,
            "role": "worker" if rank.workers else "rank", "comm": "python", "cpu_ns": one.cpu_ns,
            "majflt": one.majflt, "syscr": 10, "rchar_bytes": one.asked, "read_bytes": one.read,
        }
        for second in range(int(begun) + 1 + unseen_s, int(ended) + 1)
    ]  # fmt: skip
