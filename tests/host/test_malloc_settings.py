"""What a sampler gets on its way does not reach the user's command."""

from __future__ import annotations

import pytest

from slurm_io.host.malloc_settings import OURS, SETTINGS, with_lean_malloc, without_our_malloc

ARENAS, THRESHOLD = "MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_"


def test_a_sampler_has_one_arena_and_the_command_what_it_had() -> None:
    caller = {"PATH": "/bin", "HOME": "/root"}
    ours = with_lean_malloc(caller)
    assert ours[ARENAS] == "1"
    assert ours[THRESHOLD] == "131072"
    assert without_our_malloc(ours) == caller


@pytest.mark.parametrize("limit", ["1", "4"])
@pytest.mark.parametrize("name", [*SETTINGS])
def test_a_limit_of_the_callers_own_stays(name: str, limit: str) -> None:
    caller = {name: limit}
    assert with_lean_malloc(caller)[name] == limit
    assert without_our_malloc(with_lean_malloc(caller)) == caller


def test_what_no_sampler_was_given_is_left_as_it_is() -> None:
    caller = {ARENAS: "4", "PATH": "/bin"}
    assert without_our_malloc(caller) == caller


def test_a_list_that_somebody_made_up_takes_nothing_else_away() -> None:
    assert without_our_malloc({OURS: f"PATH,{ARENAS}", "PATH": "/bin", ARENAS: "1"}) == {
        "PATH": "/bin"
    }
