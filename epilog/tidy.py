"""Compact the store of a job that is done, one node at a time; failing does no harm.

Imported before the finisher's child becomes the user, who may not be able to read our modules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from slurm_io.errors import StoreError
from slurm_io.store.compact import compact
from slurm_io.store.compacted import is_worthwhile
from slurm_io.store.markers import arrivals, claim_leader, keep_lead, release_leader

MAX_SAID = 3


@dataclass
class Tidy:
    """Compacts `store` under the claim that `node` holds, until `deadline_s` (monotonic).

    `said` tells what could not be done, for the finisher's log.
    """

    store: Path
    node: str
    deadline_s: float
    said: list[str] = field(default_factory=list)

    def __call__(self) -> None:
        """Never raises for what it finds: the report is written and all data is readable."""
        try:
            done = compact(self.store, lambda: keep_lead(self.store, self.node), self.deadline_s)
            left = list(done.left.values())
        except (StoreError, OSError) as error:
            left = [str(error)]
        self.said = [text[:200] for text in left[:MAX_SAID]]


def tidy_up(store: Path, node: str, expected: frozenset[str], tidy: Tidy, led: bool) -> list[str]:
    """Compact a store in which nobody leads an analysis; what could not be done.

    Once all `expected` are there, or for the leader of the job's analysis with those who are.
    Raises StoreError, OSError.
    """
    seen: dict[str, int] = {}
    while is_worthwhile(store) and (now := arrivals(store)) != seen:
        if not (led or expected <= now.keys()) or not claim_leader(store, node):
            break
        try:
            seen = now
            tidy()
        finally:
            release_leader(store, node)
    return tidy.said
