"""Rows of client counters: baselines, intervals, restarts, and what is never a row."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slurm_io.collectors.base import Row
from slurm_io.collectors.client_rows import ClientRows, shown, shown_facts
from slurm_io.filesystems.client_counters import ClientCounters
from slurm_io.store.schema import TABLES
from tests.collectors.fake_host import tick

COLUMNS = TABLES["fsclient"].column_names()


class Series:
    """One series read at chosen seconds."""

    def __init__(self) -> None:
        self.rows = ClientRows()

    def at(self, second: float, owner: object = None, **totals: int | None) -> Row | None:
        self.rows.begin(tick(second))
        counters = ClientCounters(**totals)
        return self.rows.row("/m", "nfs", "mountstats", "read", counters, owner)

    def named(self, second: float, **totals: int | None) -> dict[str, Any]:
        row = self.at(second, **totals)
        assert row is not None
        return dict(zip(COLUMNS, row, strict=True))


def test_the_first_reading_is_a_baseline_and_the_next_a_row() -> None:
    one = Series()
    assert one.at(0, ops=5, bytes=50, exe_ns=5_000_000) is None
    row = one.named(2, ops=9, bytes=90, exe_ns=13_000_000)
    assert (row["ops"], row["bytes"], row["exe_ms"], row["rtt_ms"]) == (4, 40, 2.0, None)
    assert (row["interval_ns"], row["ts_ns"]) == (2_000_000_000, tick(2).ts_ns)
    assert (row["mount"], row["fstype"], row["source"]) == ("/m", "nfs", "mountstats")


def test_nothing_done_is_no_row_and_nothing_done_with_requests_in_flight_is_one() -> None:
    one = Series()
    one.at(0, ops=5)
    assert one.at(1, ops=5) is None
    assert one.at(2, ops=5, inflight=0) is None
    row = one.named(3, ops=5, inflight=2)
    assert (row["ops"], row["inflight"], row["exe_ms"]) == (0, 2, None)
    assert one.named(4, ops=5, inflight=2)["ops"] == 0
    assert one.at(5, ops=5, inflight=0) is None


def test_what_went_back_is_no_row_is_counted_and_is_the_next_baseline() -> None:
    one = Series()
    one.at(0, ops=50, bytes=500)
    assert one.at(1, ops=51, bytes=5) is None
    assert one.rows.restarts == {"/m": 1}
    assert one.named(2, ops=52, bytes=9)["bytes"] == 4


def test_an_owner_forgotten_starts_anew_and_others_do_not() -> None:
    one = Series()
    for owner in ("a", "b"):
        one.at(0, owner, ops=1)
    one.rows.forget("a")
    assert one.at(1, "a", ops=5) is None
    assert one.at(2, "b", ops=5) is not None


def test_two_readings_at_one_moment_give_no_row() -> None:
    one = Series()
    one.at(0, ops=1)
    assert one.at(0, ops=2) is None


TOTALS = st.none() | st.integers(0, 2**63 - 1)
COUNTERS = st.builds(
    ClientCounters, TOTALS, TOTALS, TOTALS, TOTALS, TOTALS, TOTALS, TOTALS,
    st.none() | st.integers(0, 2**31 - 1),
)  # fmt: skip


@given(st.lists(COUNTERS, max_size=6))
def test_no_row_has_a_number_below_zero_or_above_2_to_the_63(
    readings: list[ClientCounters],
) -> None:
    one = Series()
    for second, counters in enumerate(readings):
        row = one.at(second, **counters._asdict())
        for value in row or ():
            assert value is None or isinstance(value, str) or 0 <= value < 2**63  # type: ignore[operator]


def test_names_that_are_no_text() -> None:
    assert shown("/a\udcff") == "/a\ufffd"
    assert shown_facts({"a\udcff": ["/b\udcff", 1, None, {"c": True}]}) == {
        "a\ufffd": ["/b\ufffd", 1, None, {"c": True}]
    }
