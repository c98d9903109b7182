"""What the report says of how the GPUs were seen."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_io.analysis.api import analyse_store
from tests.analysis.stand_in import EPOCH_NS, NS, Job, one_rank, train


def coverage(source: dict[str, Any] | None, rows: int) -> dict[str, Any]:
    """Of a job whose node wrote so many rows of GPUs and says this of the source."""
    rank = train(one_rank(2), 100, 0.05, lambda k: (0.004, "cpu"))
    store = Job([rank]).store()
    (node,) = store.nodes.values()
    for second in range(rows):
        node.tables["gpu"].append(
            {
                "ts_ns": EPOCH_NS + second * NS,
                "mono_ns": second * NS,
                "interval_ns": NS,
                "gpu": 0,
                "util_share": 0.9,
            }
        )
    if source is not None:
        node.meta["sources"]["gpu"] = source
    found: dict[str, Any] = analyse_store(store)["coverage"]
    return found


@pytest.mark.parametrize(
    ("source", "rows", "state"),
    [
        ({"state": "on", "reason": ""}, 5, "on"),
        ({"state": "absent", "reason": "no driver"}, 0, "off"),
        ({"state": "off", "reason": "the driver is not loaded"}, 0, "off"),
        ({"state": "partial", "reason": "1 GPU(s) lost"}, 5, "partial"),
        (None, 5, "on"),
        ({"state": ["x"], "reason": 7}, 5, "on"),
    ],
)
def test_state(source: dict[str, Any] | None, rows: int, state: str) -> None:
    assert coverage(source, rows)["gpu"] == state


def test_a_lost_gpu_is_named_among_what_is_missing_and_an_absent_driver_is_not() -> None:
    missing = coverage({"state": "partial", "reason": "1 GPU(s) lost: it fell off the bus"}, 5)
    assert {
        "source": "gpu", "reason": "partial: 1 GPU(s) lost: it fell off the bus",
    } in missing["missing"]  # fmt: skip
    absent = coverage({"state": "absent", "reason": "no driver of GPUs is loaded"}, 0)
    assert not [one for one in absent["missing"] if "no driver" in one["reason"]]
