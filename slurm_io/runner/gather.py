"""The nodes of one step come together: whoever finds data that no report has seen yet analyses.

As in the Epilog, the claim is taken after the own DONE marker was written and the arrivals are
looked at once more after it was released, so a node that finds the claim taken may leave.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path

from slurm_io.store.files import write_json_atomic
from slurm_io.store.markers import arrivals, claim_leader, release_leader

WAIT_S = 10.0
POLL_S = 0.25
ANALYSED = "analysed.json"


def gather(
    store: Path,
    node: str,
    expected: tuple[str, ...],
    wait_s: float,
    work: Callable[[], None],
    compact: Callable[[], None],
) -> None:
    """Do `work` once all `expected` nodes have delivered, or without the rest after `wait_s`.

    `compact` comes after it, under the same claim. Raises StoreError, OSError.
    """
    while arrivals(store) != _analysed(store) and claim_leader(store, node):
        try:
            now = _wait(store, frozenset(expected), time.monotonic() + wait_s)
            work()
            write_json_atomic(store / ANALYSED, now)
            compact()
        finally:
            release_leader(store, node)


def _wait(store: Path, expected: frozenset[str], deadline_s: float) -> dict[str, int]:
    now = arrivals(store)
    while not expected <= now.keys() and time.monotonic() < deadline_s:
        time.sleep(POLL_S)
        now = arrivals(store)
    return now


def _analysed(store: Path) -> object:
    with contextlib.suppress(OSError, ValueError):
        return json.loads((store / ANALYSED).read_text())
    return None
