"""Numbers, durations, rates and time stamps as programs print them."""

from __future__ import annotations

import calendar
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.joblog.epochs import steps_of_epochs
from slurm_io.joblog.figures import (
    Fields,
    human,
    in_seconds,
    is_not_finite,
    number,
    only_whole,
    rounding,
    seconds,
    step_time,
    whole,
)
from slurm_io.joblog.stamps import find_stamp


@pytest.mark.parametrize(
    ("text", "value"),
    [("10,050", 10050), ("1_000", 1000), ("9e+3", 9000), ("4.298E-05", 4.298e-05), (".5", 0.5),
     ("'2.5'", 2.5), (" 7 ", 7), ("nan", None), ("inf", None), ("", None), (".", None),
     ("1-2", None), ("1 2", None), ("0x10", None), ("1e999", None), ("１２", None),
     ("9" * 65, None)],
)  # fmt: skip
def test_number(text: str, value: float | None) -> None:
    assert number(text) == value


@pytest.mark.parametrize("text", ["nan", "NaN", "nan.0", "inf", "-inf", "Infinity", "'nan'"])
def test_not_finite(text: str) -> None:
    assert is_not_finite(text)
    assert number(text) is None
    fields = Fields({"loss": text, "lr": "1"})
    assert (fields.number("loss"), fields.number("lr"), fields.nan) == (None, 1.0, ["loss"])


@pytest.mark.parametrize("text", ["nano", "info", "", "1", "n/a"])
def test_words_are_not_nan(text: str) -> None:
    assert not is_not_finite(text)


@pytest.mark.parametrize(("text", "value"), [("794.0", 794), ("75,000", 75000), ("1.5", None),
                                             ("-3", None), ("9" * 20, None)])  # fmt: skip
def test_whole(text: str, value: int | None) -> None:
    assert whole(text) == value


@given(st.floats(1e-3, 999e12))
def test_what_was_rounded_to_three_digits_lies_in_the_range_of_its_text(value: float) -> None:
    power = next(power for power in range(5) if value < 999.5 * 1000**power)
    found = human(f"{value / 1000**power:.3g}{' KMBT'[power].strip()}")
    assert found is not None
    low, middle, high = found
    assert low <= middle <= high
    assert low * (1 - 1e-9) <= value <= high * (1 + 1e-9)
    assert high - low <= 0.0101 * middle


@pytest.mark.parametrize(
    ("text", "value"),
    [("05:12", 312), ("878:01:48", 3160908), ("1:42:42", 6162), ("1-07:27:33", 113253),
     ("1 day, 2:03:04", 93784), ("0:00:33", 33), ("?", None), ("5", None), ("1:2", None)],
)  # fmt: skip
def test_seconds(text: str, value: float | None) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("44.14it/s", 1 / 44.14), ("41.36s/it", 41.36), (" 2.50batch/s", 0.4), ("3.0 s/step", 3.0),
     ("?it/s", None), ("", None), ("0.00it/s", None)],
)  # fmt: skip
def test_step_time(text: str, value: float | None) -> None:
    assert step_time(text) == (value and pytest.approx(value))


@pytest.mark.parametrize(("text", "unit", "value"), [("561.94", "ms", 0.56194), ("3", "us", 3e-6),
                                                     ("2", "s", 2), ("2", "x", None),
                                                     ("-2", "s", None)])  # fmt: skip
def test_units_of_time(text: str, unit: str, value: float | None) -> None:
    assert in_seconds(text, unit) == (value and pytest.approx(value))


@pytest.mark.parametrize(("text", "half"), [("1.762", 0.0005), ("37194", 0.5), ("9e+3", 500),
                                            ("6.3e+5", 5000), ("1,050", 0.5)])  # fmt: skip
def test_rounding(text: str, half: float) -> None:
    assert rounding(text) == pytest.approx(half)


def test_only_whole() -> None:
    assert only_whole(7.93, 8.03) == 8
    assert only_whole(7.9, 9.1) is None
    assert only_whole(8.1, 8.9) is None
    assert only_whole(-0.5, 0.5) is None
    assert only_whole(math.nan, 1) is None


@pytest.mark.parametrize(
    ("text", "moment", "resolution"),
    [
        ("[2022-03-11 02:06:58,985] [INFO]", (2022, 3, 11, 2, 6, 58.985), 0.001),
        (" [2025-05-09 06:11:17] iteration", (2025, 5, 9, 6, 11, 17), 1),
        ("2025-05-09T06:11:17.123456 x", (2025, 5, 9, 6, 11, 17.123456), 1e-6),
        ("01/17/2024 13:47:27 [INFO|DP=0]", (2024, 1, 17, 13, 47, 27), 1),
        ("0: [rank0]: 2024/02/29 00:00:00 - x", (2024, 2, 29, 0, 0, 0), 1),
    ],
)
def test_stamps(text: str, moment: tuple[float, ...], resolution: float) -> None:
    stamp = find_stamp(text)
    assert stamp is not None
    *date, second = moment
    expected = calendar.timegm((*map(int, date), 0, 0, 0, 0)) + second
    assert stamp.seconds == pytest.approx(expected, abs=1e-6)
    assert stamp.resolution_s == pytest.approx(resolution)
    assert (stamp.zone, stamp.has_year) == ("local", True)


def test_stamps_that_name_their_zone() -> None:
    moments = [
        find_stamp(f"2025-06-01T12:00:00{zone} x") for zone in ("Z", "+02:00", "-0330", "+00:00")
    ]
    assert [moment and moment.zone for moment in moments] == ["utc"] * 4
    base = moments[0].seconds if moments[0] else 0
    offsets = [moment and moment.seconds - base for moment in moments]
    assert offsets == [0, -7200, 12600, 0]


def test_stamps_without_a_year_are_good_for_differences() -> None:
    one, other = find_stamp("12/21 01:39:51 x"), find_stamp("12/21 01:40:00 x")
    assert one is not None and other is not None
    assert (one.has_year, other.seconds - one.seconds) == (False, 9)


@pytest.mark.parametrize("text", ["2022-13-11 02:06:58", "12:30:00", "99/99/2024 13:47:27", ""])
def test_no_stamps(text: str) -> None:
    assert find_stamp(text) is None


@given(st.integers(1, 400), st.integers(2, 40), st.integers(20, 20_000), st.integers(1, 50))
def test_epochs_give_the_steps_or_nothing(
    interval: int, lines: int, per_epoch: int, first: int
) -> None:
    """Never wrong steps: another interval that fits as well makes it unknown."""
    steps = [interval * (first + place) for place in range(lines)]
    printed = [(round(step / per_epoch, 2), 0.0050001) for step in steps]
    assert steps_of_epochs(printed, per_epoch, steps[-1] + interval) in (steps, None)


def test_one_line_proves_no_interval() -> None:
    assert steps_of_epochs([(0.5, 0.005)], 100.0, 100) is None
