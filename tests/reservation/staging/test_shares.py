from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slurm_io.reservation.staging.shares import share

NAMES = st.lists(st.sampled_from([f"n{number}" for number in range(12)]), unique=True)


def test_more_donors_than_targets_are_spread_over_them() -> None:
    assert share(["a", "b", "c"], ["x", "y"], 4) == {"x": ("a", "c"), "y": ("b",)}
    assert share(["a", "b", "c"], ["x"], 2) == {"x": ("a", "b")}


def test_more_targets_than_donors_wait() -> None:
    assert share(["a", "b"], ["x", "y", "z"], 4) == {"x": ("a",), "y": ("b",)}
    assert share([], ["x"], 4) == {} == share(["a"], [], 4)


@given(NAMES, NAMES, st.integers(1, 5))
def test_no_donor_gives_twice_and_no_target_goes_without(
    free: list[str], waiting: list[str], most: int
) -> None:
    given_to = share(free, waiting, most)
    givers = [donor for donors in given_to.values() for donor in donors]
    assert len(givers) == len(set(givers)) and set(givers) <= set(free)
    assert all(1 <= len(donors) <= most for donors in given_to.values())
    assert len(given_to) == min(len(free), len(waiting))
