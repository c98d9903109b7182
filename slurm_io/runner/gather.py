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
from slurm_io.store.markers import arrived, claim_leader, release_leader

WAIT_S = 10.0
POLL_S = 0.25
ANALYSED = "analysed.json"


def gather(
    store: Path, node: str, expected: tuple[str, ...], wait_s: float, work: Callable[[], None]
) -> None:
    """Do `work` once all `expected` nodes have delivered, or without the rest after `wait_s`.

    Raises StoreError, OSError.
    """
    while _arrivals(store) != _analysed(store) and claim_leader(store, node):
        try:
            now = _wait(store, frozenset(expected), time.monotonic() + wait_s)
            work()
            write_json_atomic(store / ANALYSED, now)
        finally:
            release_leader(store, node)


def _wait(store: Path, expected: frozenset[str], deadline_s: float) -> dict[str, int]:
    now = _arrivals(store)
    while not expected <= now.keys() and time.monotonic() < deadline_s:
        time.sleep(POLL_S)
        now = _arrivals(store)
    return now


def _arrivals(store: Path) -> dict[str, int]:
    """Node -> when its DONE marker was written, ns: a node that delivers again counts as new."""
    found = {}
    for node in arrived(store):
        with contextlib.suppress(FileNotFoundError):
            found[node] = (store / f"DONE.{node}").lstat().st_mtime_ns
    return found


def _analysed(store: Path) -> object:
    with contextlib.suppress(OSError, ValueError):
        return json.loads((store / ANALYSED).read_text())
    return None
