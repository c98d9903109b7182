"""Single pieces of the arithmetic, and what each refuses."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.analysis.compare import noise
from slurm_io.analysis.compare.difference import of_means
from tests.analysis.compare.series import Run, judged


def rows(y: list[float], x: float = 1.0) -> pl.DataFrame:
    return pl.DataFrame(
        {"y": y, "x": [x] * len(y), "progress": [float(k + 1) for k in range(len(y))]}
    )


@pytest.mark.parametrize(
    ("p", "freedom", "told"),
    [(0.975, 9, 2.262), (0.995, 9, 3.250), (0.9975, 12, 3.428), (0.975, 63, 1.998),
     (0.995, 30, 2.750), (0.975, 5, 2.571)],
)  # fmt: skip
def test_quantiles_of_students_t(p: float, freedom: float, told: float) -> None:
    assert noise.student(p, freedom) == pytest.approx(told, rel=0.005)


def test_too_few_steps_are_said_to_be_too_few() -> None:
    assert noise.ratio(rows([1.0] * 99)) == "too short: 99 of at least 100 values"


def test_a_run_that_drifts_cannot_bound_its_noise() -> None:
    assert "drifts" in str(noise.ratio(rows([float(k) for k in range(2000)])))


def test_the_value_is_that_of_the_whole_run() -> None:
    told = noise.ratio(rows([float(k % 7) for k in range(700)], x=2.0))
    assert isinstance(told, noise.Noisy)
    assert told.value == pytest.approx(3 / 2)
    assert noise.FEWEST_SLICES <= told.slices <= noise.MOST_SLICES


def test_what_never_varies_has_no_noise_and_is_not_tested() -> None:
    same = noise.ratio(rows([1.0] * 640))
    assert isinstance(same, noise.Noisy)
    assert same.error == pytest.approx(0, abs=1e-12)
    assert "never varied" in str(of_means(same, same, True, 0.05)) or same.error > 0


@given(st.lists(st.floats(0, 1e6), min_size=0, max_size=400), st.floats(0.01, 0.99))
def test_any_series_is_an_estimate_or_a_reason(values: list[float], level: float) -> None:
    frame = rows(values)
    assert isinstance(noise.ratio(frame), (noise.Noisy, str))
    told = noise.quantile(frame["y"], frame["progress"], level, 0.01)
    if isinstance(told, noise.Interval):
        assert told.low is None or told.low <= told.value
        assert told.high is None or told.high >= told.value


def test_p99_of_few_steps_is_not_bounded() -> None:
    told = judged(Run(300), Run(300), 1)["step_p99"]
    assert told.difference is None
    assert "too few steps beyond it" in told.why
    assert told.a is not None


def test_rare_events_are_not_tested() -> None:
    told = judged(Run(400, save_every=100), Run(400, save_every=100), 1)["ckpt_share"]
    assert told.why == "fewer than 10 steps of either run have any of it"
    none = judged(Run(400), Run(400), 1)["ckpt_share"]
    assert none.why == "none of it in either run"
