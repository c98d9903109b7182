"""Batches handed over late while tasks queue for CPUs: nobody knows which of the two it was."""

from __future__ import annotations

import pytest

from slurm_io.analysis.api import analyse_store
from tests.analysis.rules.stores import put
from tests.analysis.stand_in import Job, one_rank, train


@pytest.mark.parametrize(
    ("pressure", "verdict", "rules"), [(0.05, "pipeline", {"F01"}), (0.9, "not-proven", set())]
)
def test_late_hand_overs_are_the_loaders_only_where_cpus_are_free(
    pressure: float, verdict: str, rules: set[str]
) -> None:
    rank = train(one_rank(), 400, 0.05, lambda k: (0.02, "pipe"))
    store = Job([rank]).store()
    put(store, "node", lambda second: {"psi_cpu_some_ns": round(pressure * 1e9)})
    report = analyse_store(store)
    assert report["verdict"] == verdict
    assert {finding["rule"] for finding in report["findings"]} == rules
