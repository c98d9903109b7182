"""Which node analyses: the first to arrive claims it; whoever arrives later has it done again.

Runs as the user in the finisher's child. The claim is taken after our own DONE marker was written
and the arrivals are looked at once more after it was released, so a node that finds the claim
taken may leave: its data will be seen.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slurm_io.store.files import write_json_atomic
from slurm_io.store.markers import arrivals, claim_leader, release_leader

SETTLE_S = 5.0  # nodes of one job end together; a node missing after this delays no report
POLL_S = 0.5
ANALYSED = "analysed.json"

Arrivals = dict[str, int]
"""Node -> when its DONE marker was written, ns: a node that delivers again counts as new."""


@dataclass(frozen=True)
class Lead:
    """One leader's work. `analyse` writes the reports; `expected` are the job's nodes.

    `compact` comes last, when nobody is waited for any more.
    """

    store: Path
    node: str
    expected: frozenset[str]
    grace_s: float
    analyse: Callable[[], None]
    compact: Callable[[], None] | None = None

    def run(self) -> int:
        """Analyse until every arrival has been seen; how often. Raises StoreError, OSError."""
        rounds = 0
        while arrivals(self.store) != self._analysed() and claim_leader(self.store, self.node):
            try:
                rounds += self._rounds()
            finally:
                release_leader(self.store, self.node)
        return rounds

    def _rounds(self) -> int:
        """A report soon of those who are there, and another one when the others came."""
        rounds = 0
        began = time.monotonic()
        for until_s in (min(SETTLE_S, self.grace_s), self.grace_s):
            now = self._wait(began + until_s)
            if now != self._analysed():
                self.analyse()
                write_json_atomic(self.store / ANALYSED, now)
                rounds += 1
            if self.expected <= now.keys():
                break
        if self.compact is not None:
            self.compact()
        return rounds

    def _wait(self, deadline: float) -> Arrivals:
        """Who has delivered, once all have or it is `deadline`."""
        now = arrivals(self.store)
        while not self.expected <= now.keys() and time.monotonic() < deadline:
            time.sleep(POLL_S)
            now = arrivals(self.store)
        return now

    def _analysed(self) -> object:
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.store / ANALYSED).read_text())
        return None
