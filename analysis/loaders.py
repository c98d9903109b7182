"""The loaders that gave training batches, as the hook described them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from slurm_io.analysis.facts import mapping, whole
from slurm_io.analysis.picture import Picture


@dataclass(frozen=True)
class TrainingLoader:
    """`facts`: num_workers, batch_size, prefetch_factor, persistent, pin_memory, context, …"""

    node: str
    batches: int
    facts: dict[str, Any]


def training_loaders(picture: Picture) -> list[TrainingLoader]:
    """By node; loaders that nobody described are not among them."""
    rows = picture.timeline.rows
    if rows.is_empty():
        return []
    keys = (pl.col("node").cast(pl.String), "pid", "loader")
    batches = {(node, pid, loader): count for node, pid, loader, count in
               rows.group_by(*keys).len().rows()}  # fmt: skip
    found = []
    for node, view in sorted(picture.store.nodes.items()):
        told = view.meta.get("loaders")
        for one in map(mapping, told if isinstance(told, list) else ()):
            count = batches.get((node, whole(one.get("pid")), whole(one.get("id"))))
            if count is not None:
                found.append(TrainingLoader(node, count, one))
    return found
