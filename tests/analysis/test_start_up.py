"""The wait for the very first batch is start-up: no share, and no evidence for the waits behind."""

from __future__ import annotations

import pytest

from slurm_io.analysis.report import build_report
from slurm_io.analysis.thresholds import Thresholds
from tests.analysis.stand_in import Job, Rank


@pytest.mark.parametrize("first_s", [0.6, 1.9, 3.3])
def test_a_slow_first_batch_lends_its_cause_to_nobody(first_s: float) -> None:
    """Behind it batches are handed over, now and then a little late, and a few looks see that."""
    rank = Rank(0, "n1", 1000, workers=2)
    rank.batch(first_s, "storage", index=0)
    for index in range(1, 400):
        rank.compute(0.05)
        rank.batch(0.011 if index % 5 == 0 else 0.002, "pipe", index=index)
    rank.compute(0.05)
    report = build_report(Job([rank]).store(), Thresholds())
    storage = report["idle"]["storage"]
    assert storage["low"] == 0
    assert storage["value"] < 0.002
