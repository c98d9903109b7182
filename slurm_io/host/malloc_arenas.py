"""The environment of a sampler: one arena for glibc's malloc.

glibc gives each thread an arena of its own. The sampler works in a second thread, so what the first
one left free is never used again: 2 MiB of 30 on a node with 720 processes. Only one of the two
ever works, so nothing is lost. The limit can be set from outside only, and must not reach the
user's command, whose threads may want their arenas.
"""

from __future__ import annotations

from collections.abc import Mapping

_LIMIT, _OURS = "MALLOC_ARENA_MAX", "SLURM_IO_SET_MALLOC_ARENA_MAX"


def with_one_arena(environment: Mapping[str, str]) -> dict[str, str]:
    """For a sampler. A limit that somebody set already stays."""
    if _LIMIT in environment:
        return dict(environment)
    return {**environment, _LIMIT: "1", _OURS: "1"}


def without_our_limit(environment: Mapping[str, str]) -> dict[str, str]:
    """For what a sampler starts for the user: as it was before :func:`with_one_arena`."""
    if _OURS not in environment:
        return dict(environment)
    return {name: value for name, value in environment.items() if name not in (_LIMIT, _OURS)}
