"""Recorded: what a healthy job left behind, torn or only still being written."""

from __future__ import annotations

from slurm_io.analysis.facts import whole
from tests.analysis.rules.stores import Row
from tests.analysis.stand_in import NS, Rank, StandInStore
from tests.grid.model import BLAMES_STORAGE, NOT_ILL, Recorded
from tests.grid.recordings import ranks_on, store_of, train_in_lockstep

_FOLDER = "/scratch/ckpt"
_TORN = {"file": "__3_0.distcp", "text": "1024 bytes, .metadata says 99328: cut short"}
_NO_MARK = {"file": ".metadata", "text": "not there: it is written last (8 files of ranks are)"}


def left_behind(*saves: Row) -> tuple[StandInStore, float]:
    """Eight ranks on two nodes that save twice, for a moment, and the look at what lies there."""
    ranks = ranks_on(2, 4)
    truth = train_in_lockstep(ranks, 400, lambda k: 0.1, lambda rank, k: (0.002, "pipe"), _save)
    store = store_of(ranks)
    end_ns = max(whole(node.meta.get("end_ts_ns")) or 0 for node in store.nodes.values())
    series = {"path": _FOLDER, "saves": list(saves), "pointers": [], "reason": None}
    store.checkpoints = {"schema": 1, "looked_ts_ns": end_ns + 8 * NS, "folders": [series]}
    return store, truth


def _save(rank: Rank, k: int) -> float:
    return 0.05 if k in (150, 300) else 0.0


def _saved(step: int, state: str, problems: list[Row], young: bool) -> Row:
    return {"path": f"{_FOLDER}/step-{step}", "format": "dcp", "state": state, "step": step,
            "problems": problems, "problem_count": len(problems), "notes": [], "files": 9,
            "bytes": 8 * 10**9, "written_ts_ns": step * NS, "young": young}  # fmt: skip


def torn() -> tuple[StandInStore, float]:
    """The newest save is shorter than its own table says; the one before is whole."""
    return left_behind(_saved(300, "broken", [_TORN], False), _saved(150, "whole", [], False))


def still_written() -> tuple[StandInStore, float]:
    """An asynchronous save without its mark yet, seconds after its last byte."""
    return left_behind(_saved(300, "unfinished", [_NO_MARK], True), _saved(150, "whole", [], False))


SCENARIOS = (
    Recorded(
        name="recorded-torn-checkpoint",
        why=(torn.__doc__ or "").strip(),
        make=torn,
        verdicts=NOT_ILL,
        fired=frozenset({"F13"}),
        quiet=BLAMES_STORAGE,
        named={"mounts": "/scratch"},
        decoy=True,
    ),
    Recorded(
        name="recorded-checkpoint-still-written",
        why=(still_written.__doc__ or "").strip(),
        make=still_written,
        verdicts=NOT_ILL,
        quiet=BLAMES_STORAGE | {"F13"},
        decoy=True,
    ),
)
