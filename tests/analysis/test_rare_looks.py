"""A sampler that keeps to its budget looks seldom, at a part of the ranks: numbers stay right."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from slurm_io.analysis.causes import Causes
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.latency import latency_by_second
from slurm_io.analysis.overhead import overhead
from slurm_io.analysis.slowed import pace_text, slowed
from tests.analysis.stand_in import StandInNode, StandInStore
from tests.analysis.test_latency import heard, process_row, waits_row

READ_MS = 25.0  # half of each second in storage, 20 calls in it


@pytest.mark.parametrize("apart_s", [4, 8, 20])
def test_seconds_nobody_looked_at_do_not_thin_out_the_latency(apart_s: int) -> None:
    """Rows of 20 s, of which one second in so many was looked at."""
    rows = [process_row(end, 20) for end in (20, 40, 60)]
    found = heard(rows, range(0, 60, apart_s))
    assert found is not None and found.calls is not None
    assert 1000 * found.storage_s / found.calls == pytest.approx(READ_MS, rel=0.1)


def test_reads_of_ranks_that_were_not_looked_at_do_not_thin_out_the_latency() -> None:
    node = pl.Enum(["n1"])
    rows = [{**process_row(6, 1), "rank": rank} for rank in range(8)]
    samples = pl.DataFrame([waits_row(6, 0.5)]).with_columns(
        pl.col("rank").cast(pl.Int32), pl.col("node").cast(node)
    )
    borders = pl.DataFrame(
        {"node": ["n1"], "border": [0]}, schema={"node": node, "border": pl.Int64}
    )
    none = pl.DataFrame()
    tables = Tables(StandInStore(None, {"n1": StandInNode("n1", {}, {"process": rows})}, ("n1",)))
    found = latency_by_second(tables, Causes(none, samples, none, none, borders, 1))
    assert found["ms"].to_list() == [READ_MS]


def store(**governors: dict[str, Any]) -> StandInStore:
    """Nodes whose samplers say this of their governor."""
    nodes = {name: StandInNode(name, {}) for name in governors}
    for name, governor in governors.items():
        nodes[name].self_cost = {"cpu_s": 1.0, "wall_s": 600.0, "governor": governor}
    return StandInStore(None, nodes, tuple(nodes))


def test_what_was_left_out_is_told_in_words() -> None:
    paces = {"waits": 0.0625, "discovery": 16.0, "process": 40, "rings": 8}
    said = overhead(store(n1={"level": 0, "paces": {}}, n2={"level": 9, "paces": paces}))
    assert said["governor"]["text"] == (
        "looks at each process every 16 s, for new processes every 16 s, "
        "process 40 times less often, rings 8 times less often"
    )
    assert pace_text({"paces": {"waits": 2.0}}) == "looks at each process 2 times a second"
    assert pace_text({"paces": {}}) is None


def test_waits_seen_seldom_are_told_and_those_seen_each_second_are_not() -> None:
    found = slowed(store(n1={"paces": {"waits": 0.125}}, n2={"paces": {"waits": 1.0}}))
    assert [source for source, _ in found] == ["waits"]
    assert "every 8 s" in found[0][1] and "n1" in found[0][1]


def test_a_budget_that_was_not_kept_is_told_with_what_was_spent() -> None:
    over = {"budget_share": 0.003, "share": 0.0052, "out_of_reach": True, "out_of_reach_s": 480.0}
    ((source, why),) = slowed(store(n1=over))
    assert source == "sampler"
    assert all(part in why for part in ("0.30%", "0.52%", "480 s", "n1"))
    assert slowed(store(n1={**over, "out_of_reach_s": 3.0})) == []


@pytest.mark.parametrize("junk", [{}, {"paces": 7}, {"paces": {"waits": "x"}}, {"paces": None}])
def test_a_damaged_governor_is_no_news(junk: dict[str, Any]) -> None:
    assert slowed(store(n1=junk)) == []
    assert pace_text(junk) is None
