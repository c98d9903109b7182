"""All scenarios of the grid, one file for each family, found by listing this folder.

A family's module has ``SCENARIOS``, a tuple of live and recorded ones. The truth of a live one is
`tests.labs.train.storage_idle_share` over the training script's own stopwatch: per step the part
of the wait in which a read was blocked, at most the wait less the loader's hand-over (CPU work is
not in it), the slowest rank's counting for all ranks, plus blocking checkpoints; divided by the
training window, which opens when the first batch has arrived. Nothing in it comes from the
profiler. Designs that keep it unambiguous: one epoch where the cause is not the epoch, compute
that hides nothing, slow and fast delays far apart, reads that never hit a cache by chance.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from tests.grid.model import Judged, Recorded, Scenario

__all__ = ["ALL", "RECORDED", "SCENARIOS", "Recorded", "Scenario"]


def _found() -> Iterator[Judged]:
    for family in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        yield from importlib.import_module(f"{__name__}.{family}").SCENARIOS


ALL: tuple[Judged, ...] = tuple(_found())
SCENARIOS = tuple(one for one in ALL if isinstance(one, Scenario))
RECORDED = tuple(one for one in ALL if isinstance(one, Recorded))
