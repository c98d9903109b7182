"""Writes the store of a recorded scenario and judges its report; no process runs meanwhile."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.analysis.test_real_store import write_store
from tests.grid.judge import Outcome, judge
from tests.grid.model import Recorded
from tests.grid.reporting import report_of


def replay(scenario: Recorded, folder: Path) -> Outcome:
    """`folder` is empty or missing."""
    started_s = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    store, truth = scenario.make()
    write_store(folder / "store", store)
    for name, node in store.nodes.items():
        if node.checks is not None:
            path = folder / "store" / f"node={name}" / "checks.json"
            path.write_text(json.dumps(node.checks))
    return judge(scenario, report_of(folder, ("json",)), truth, time.monotonic() - started_s)
