"""iostat's figures between the five snapshots of one host, numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.filesystems.diskstats import DiskCounters, parse_diskstats
from slurm_io.filesystems.iostat_figures import Figures, figures, went_back, wrapped_ms

FIXTURES = Path(__file__).parents[1] / "fixtures" / "host"

# (snapshot, device) -> what happened in the second before it: cumulative columns subtracted by hand
# from the two files, then iostat's formulas.
STATED: dict[tuple[int, str], dict[str, float | bool | None]] = {
    (2, "sdq"): {
        "r_s": 200, "rkB_s": 245, "rrqm_s": 100, "r_await": 9.5, "rareq_sz": 1.225,
        "w_s": 0, "w_await": None, "d_s": 100, "dkB_s": 500, "drqm_s": 80, "d_await": 20,
        "dareq_sz": 5, "f_s": None, "aqu_sz": 0.4, "util": 30, "inflight": 0, "stuck": False,
    },
    (2, "sdr"): {
        "r_s": 100, "rkB_s": 150, "rrqm_s": 100, "r_await": 3, "w_s": 50, "wkB_s": 500,
        "wrqm_s": 100, "w_await": 40, "wareq_sz": 10, "d_s": 0, "d_await": None,
        "aqu_sz": 2, "util": 200,
    },
    (2, "sds"): {"r_s": 100, "rkB_s": 500, "r_await": 7, "w_await": 10, "d_s": None, "util": 10},
    (3, "sdq"): {"r_s": 1000, "rkB_s": 1500, "r_await": 1, "d_s": 200, "util": 0, "aqu_sz": 0},
    (3, "sda1"): {"r_s": 100, "r_await": 1, "inflight": 100, "aqu_sz": 0.1},
    (4, "sdc"): {"f_s": 24, "f_await": 1231 / 24, "r_s": 0, "r_await": None, "util": 0},
    (4, "sdr"): {"r_s": 60, "rkB_s": 5, "r_await": 0.5, "w_s": 90, "wkB_s": 20, "aqu_sz": 0.8},
    (5, "sdg"): {"r_s": 20, "rkB_s": 500, "rareq_sz": 25, "r_await": 5, "w_s": 1, "w_await": 30},
    (5, "sdc"): {"f_s": 25, "f_await": 2232 / 25},
    (5, "sds"): {"r_s": 200, "rkB_s": 50, "r_await": 1, "w_s": 30, "wkB_s": 35, "util": 20},
}  # fmt: skip

# Counters that fell (sda came back with older ones) or a line that grew columns (sdc, sds).
WENT_BACK = {2: set(), 3: {"sdb", "sdc"}, 4: {"sda", "sda1", "sds"}, 5: set()}


def snapshot(number: int) -> dict[str, DiskCounters]:
    text = (FIXTURES / "diskstats" / f"series_root{number}.txt").read_text()
    return {line.name: line.counters for line in parse_diskstats(text)}


@pytest.mark.parametrize(("number", "device"), STATED)
def test_series(number: int, device: str) -> None:
    found = figures(snapshot(number - 1)[device], snapshot(number)[device], 1.0)._asdict()
    for name, value in STATED[number, device].items():
        assert found[name] == (value if value is None else pytest.approx(value)), name


@pytest.mark.parametrize("number", [2, 3, 4, 5])
def test_series_counters_that_went_back(number: int) -> None:
    before, now = snapshot(number - 1), snapshot(number)
    both = before.keys() & now.keys()
    assert {name for name in both if went_back(before[name], now[name])} == WENT_BACK[number]


def counters(**changed: int | None) -> DiskCounters:
    base = DiskCounters(*[1000] * 8, 0, *[1000] * 2, *[1000] * 6)
    return base._replace(**changed)


@pytest.mark.parametrize("column", ["read_ms", "write_ms", "io_ms", "weighted_ms", "discard_ms"])
def test_a_32_bit_millisecond_wrap_is_no_step_back(column: str) -> None:
    before, now = counters(**{column: 2**32 - 40}), counters(**{column: 10})
    assert not went_back(before, now)
    assert wrapped_ms(2**32 - 40, 10) == 50


def test_a_small_step_back_of_a_millisecond_counter_is_not_a_wrap() -> None:
    found = figures(counters(io_ms=700000), counters(io_ms=699998), 2.0)
    assert found.util is None


@pytest.mark.parametrize(
    ("before", "now", "stuck"),
    [
        (counters(inflight=3), counters(inflight=3, io_ms=2000, weighted_ms=4000), True),
        (counters(inflight=3), counters(inflight=3, read_ios=1001), False),
        (counters(inflight=0), counters(inflight=3), False),
        (counters(inflight=3), counters(inflight=3, flush_ios=1001), False),
        (counters(inflight=None), counters(inflight=None), None),
    ],
)
def test_stuck_means_waiting_at_both_ends_and_nothing_done(
    before: DiskCounters, now: DiskCounters, stuck: bool | None
) -> None:
    assert figures(before, now, 1.0).stuck is stuck


def test_util_is_not_clamped_and_flushes_are_unknown_on_partitions() -> None:
    now = counters(io_ms=2010, flush_ios=1005, flush_ms=1010)
    assert figures(counters(), now, 1.0).util == pytest.approx(101)
    assert figures(counters(), now, 1.0).f_await == pytest.approx(2)
    on_partition = figures(counters(), now, 1.0, is_partition=True)
    assert (on_partition.f_s, on_partition.f_await) == (None, None)


def test_minus_one_in_flight_of_old_kernels_is_unknown() -> None:
    assert figures(counters(), counters(inflight=2**32 - 1), 1.0).inflight is None


COUNTS = st.integers(0, 2**62)


@given(st.lists(st.tuples(COUNTS, COUNTS), min_size=17, max_size=17), st.floats(0.01, 1000))
def test_no_counters_give_a_negative_or_endless_figure(
    pairs: list[tuple[int, int]], interval_s: float
) -> None:
    before, now = (DiskCounters(*(pair[i] for pair in pairs)) for i in (0, 1))
    if went_back(before, now):
        return
    found = figures(before, now, interval_s)
    assert all(value is None or 0 <= value < float("inf") for value in found)
    assert isinstance(found, Figures)
