"""Recorded decoys: what batches are made of. Storage has no part in it."""

from __future__ import annotations

from tests.analysis.rules.stores import padding_events
from tests.analysis.stand_in import StandInStore
from tests.grid.model import BLAMES_STORAGE, F01, NOT_ILL, Recorded
from tests.grid.recordings import ranks_on, store_of, train_in_lockstep


def padded(share: float) -> tuple[StandInStore, float]:
    """Two ranks that wait for nothing; `share` of their tokens is padding."""
    ranks = ranks_on(1, 2)
    truth = train_in_lockstep(ranks, 600, lambda k: 0.1, lambda rank, k: (0.001, "cpu"))
    store = store_of(ranks)
    node = store.nodes["n1"]
    node.tables["events"] = [row for row in node.tables["events"] if row["kind"] != "padding"]
    node.tables["events"] += padding_events(node.tables["steps"], share, 20)
    return store, truth


def mostly_padding() -> tuple[StandInStore, float]:
    """Short sequences padded to the length of the model: busy GPUs, and most of it for nothing."""
    return padded(0.85)


def little_padding() -> tuple[StandInStore, float]:
    """Sequences of like length, padded to the longest of their batch."""
    return padded(0.12)


SCENARIOS = (
    Recorded(
        name="recorded-mostly-padding",
        why=(mostly_padding.__doc__ or "").strip(),
        make=mostly_padding,
        verdicts=NOT_ILL,
        fired=frozenset({"F24"}),
        quiet=F01 | BLAMES_STORAGE,
        decoy=True,
    ),
    Recorded(
        name="recorded-little-padding",
        why=(little_padding.__doc__ or "").strip(),
        make=little_padding,
        verdicts=NOT_ILL,
        quiet=F01 | BLAMES_STORAGE | {"F24"},
        decoy=True,
    ),
)
