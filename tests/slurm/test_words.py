"""Slurm's words for times, durations and numbers, in every shape."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.errors import SlurmError
from slurm_io.slurm.words import (
    duration_of,
    epoch_of,
    is_infinite,
    names_in,
    number_in,
    text_in,
    why_no_epoch,
)

NO_TIMES = ["", "(null)", "None", "N/A", "n/a", "n/s", "Unknown", "UNKNOWN", "INFINITE", "0",
            "UNLIMITED", "NONE", "Never", "INVALID"]  # fmt: skip


@pytest.mark.parametrize("word", NO_TIMES)
def test_a_word_for_no_time_is_none_and_no_problem(word: str) -> None:
    assert (epoch_of(word), why_no_epoch(word)) == (None, None)


@pytest.mark.parametrize(
    "word", ["14:24:22", "Tomorr 10:00", "21 Jul 10:00", "Ystday 03:00", "2026-02-31T10:00:00",
             "2026-13-01T00:00:00", "x", "-5", "17e8"],
)  # fmt: skip
def test_what_says_no_day_is_none_with_a_reason(word: str) -> None:
    assert epoch_of(word) is None
    assert "SLURM_TIME_FORMAT" in (why_no_epoch(word) or "")


@given(st.integers(1, 4_000_000_000))
def test_both_forms_of_a_time_are_one(epoch: int) -> None:
    assert epoch_of(str(epoch)) == epoch
    shown = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(epoch))
    found = epoch_of(shown)
    # An hour that comes twice in autumn may be the other one.
    assert found is not None
    assert time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(found)) == shown


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_durations(days: int, hours: int, minutes: int, seconds: int) -> None:
    wanted = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    assert duration_of(f"{days}-{hours:02d}:{minutes:02d}:{seconds:02d}") == wanted
    if not days:
        assert duration_of(f"{hours}:{minutes:02d}:{seconds:02d}") == wanted
        assert hours or duration_of(f"{minutes}:{seconds:02d}") == wanted


@pytest.mark.parametrize("word", ["UNLIMITED", "INFINITE", "NOT_SET", "(null)", "INVALID"])
def test_a_word_for_no_limit_is_none(word: str) -> None:
    assert duration_of(word) is None


@pytest.mark.parametrize("word", ["60", "1-", "1:2:3:4", "-1:00", "1:00:0", "9" * 5000])
def test_a_duration_without_its_unit_is_refused(word: str) -> None:
    with pytest.raises(SlurmError, match="no duration"):
        duration_of(word)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (5, 5), (None, None), ("5", 5), ("05", 5), (5.0, 5), ({}, None), ("", None),
        ({"set": True, "infinite": False, "number": 5}, 5),
        ({"set": False, "infinite": False, "number": 5}, None),
        ({"set": True, "infinite": True, "number": 5}, None),
        ({"set": False, "infinite": True, "number": 0}, None),
        (4294967294, None), (4294967295, None), (2**64 - 1, None), (65534, None),
    ],
)  # fmt: skip
def test_shapes_of_a_number(value: object, number: int | None) -> None:
    assert number_in(value, "x") == number
    assert is_infinite(value) == (isinstance(value, dict) and value.get("infinite") is True)


@pytest.mark.parametrize("value", [True, -1, 1.5, "x", [], [1], {"set": True, "number": "x"}])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(SlurmError, match="retries is"):
        number_in(value, "retries")


def test_lists_and_texts_of_all_schemas() -> None:
    assert names_in(["a", "b"], "x") == names_in("a,b", "x") == ("a", "b")
    assert names_in(None, "x") == names_in("", "x") == names_in("(null)", "x") == ()
    assert text_in(None, "x") == text_in({}, "x") == text_in("(null)", "x") == ""
    for bad in (["a", 1], 5, {"a": 1}):
        with pytest.raises(SlurmError):
            names_in(bad, "x")
