"""What a sampler gets on its way does not reach the user's command."""

from __future__ import annotations

import pytest

from slurm_io.host.malloc_arenas import with_one_arena, without_our_limit

ARENAS = "MALLOC_ARENA_MAX"


def test_a_sampler_has_one_arena_and_the_command_what_it_had() -> None:
    caller = {"PATH": "/bin", "HOME": "/root"}
    ours = with_one_arena(caller)
    assert ours[ARENAS] == "1"
    assert without_our_limit(ours) == caller


@pytest.mark.parametrize("limit", ["1", "4"])
def test_a_limit_of_the_callers_own_stays(limit: str) -> None:
    caller = {ARENAS: limit}
    assert with_one_arena(caller) == caller
    assert without_our_limit(with_one_arena(caller)) == caller
