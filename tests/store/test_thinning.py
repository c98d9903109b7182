"""Every so many-th second of a clock, whatever the rows."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.store.thinning import thinner

NS = 10**9


@given(st.lists(st.integers(0, 2**62), max_size=30), st.integers(1, 3600))
def test_whole_seconds_are_kept(clocks: list[int], every: int) -> None:
    near = [clock + step for clock in clocks for step in (0, NS, every * NS)]
    batch = pa.record_batch({"mono_ns": pa.array(near, pa.int64())})
    kept = thinner(every)(batch)
    assert kept["mono_ns"].to_pylist() == [c for c in near if c // NS % every == 0]


def test_an_unsound_clock_is_left_to_be_found() -> None:
    for clock in (pa.array([1, None], pa.int64()), pa.array(["x", "y"])):
        batch = pa.record_batch({"mono_ns": clock})
        assert thinner(7)(batch).equals(batch)
    nameless = pa.record_batch({"x": pa.array([1])})
    assert thinner(7)(nameless).equals(nameless)
