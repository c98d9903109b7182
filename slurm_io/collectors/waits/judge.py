"""One class for a process at one pass: that of its most telling thread.

When the main thread runs, reads storage or the network, that is what the process does. When it
sleeps, holds a lock or listens to a pipe, somebody else may be working for it: a download pool, a
C++ reader, a grandchild behind the pipe. Then storage beats network beats CPU among those.
"""

from __future__ import annotations

from collections.abc import Iterable

from slurm_io.collectors.waits.reading import Reading

_TELLING = ("storage", "net", "cpu")
SAYS_NOTHING = frozenset(("sleep", "lock", "pipe", "other"))
"""Classes of a main thread that say nothing by themselves: it waits for others."""


def most_telling(main: Reading, others: Iterable[Reading], phase: str, is_rank: bool) -> Reading:
    """The reading that stands for the process.

    In a data wait or a load, another thread that writes is a background save: it holds nobody up.
    A rank's own helper threads poll sockets for ever (collectives, loggers): no object store.
    """
    best = main
    rank_of_best = len(_TELLING)
    for reading in others:
        if reading.wait_class not in _TELLING:
            continue
        if reading.is_write and phase in ("data_wait", "load"):
            continue
        if is_rank and reading.wait_class == "net" and reading.call == "poll":
            continue
        position = _TELLING.index(reading.wait_class)
        if position < rank_of_best:
            best, rank_of_best = reading, position
    return best
