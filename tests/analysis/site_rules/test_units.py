"""Units: what a product is, what fits, and that nothing is converted unasked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.analysis.site_rules.names import fields, series
from slurm_io.analysis.site_rules.units import ANY, NONE, Unit, converted, unit_of

UNITS = st.sampled_from(["", "s", "ms", "B", "kB/s", "1/s", "share", "%", "MHz", "W", "°C"]).map(
    unit_of
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ms", "ms"),
        ("kB/s", "kB/s"),
        ("1/s", "1/s"),
        ("share", "no unit"),
        ("", "no unit"),
    ],
)
def test_units_of_the_schema(text: str, shown: str) -> None:
    assert str(unit_of(text)) == shown


@given(UNITS, UNITS)
def test_a_quotient_undoes_a_product(one: Unit, other: Unit) -> None:
    assert one.times(other).over(other) == one
    assert one.times(other) == other.times(one)


@given(UNITS)
def test_a_bare_number_goes_with_anything_and_changes_nothing(unit: Unit) -> None:
    assert unit.fits(ANY) and ANY.fits(unit)
    assert ANY.or_any(unit) == unit
    assert unit.times(ANY).powers == unit.powers


def test_a_share_is_no_percentage_and_a_millisecond_no_second() -> None:
    assert not unit_of("share").fits(unit_of("%"))
    assert not unit_of("ms").fits(unit_of("s"))
    assert NONE.fits(unit_of("share"))


@pytest.mark.parametrize(
    ("text", "base", "factor"),
    [("ms", "s", 1e-3), ("ns", "s", 1e-9), ("%", "no unit", 0.01), ("kB/s", "B/s", 1024.0),
     ("MiB", "B", 2.0**20)],
)  # fmt: skip
def test_conversion_to_base_units(text: str, base: str, factor: float) -> None:
    found = converted(unit_of(text))
    assert found is not None
    assert (str(found[0]), found[1]) == (base, factor)


def test_what_has_no_base_unit_is_not_converted() -> None:
    assert converted(unit_of("MHz")) is None
    assert converted(NONE) is None


def test_every_name_has_a_unit_that_can_be_shown() -> None:
    assert all(str(one.unit) for one in [*fields().values(), *series().values()])
