"""Limits for a child that reads a user's files: memory, CPU, no core file."""

from __future__ import annotations

import resource

MOST_MEMORY_BYTES = 768 * 2**20
_PAGE_FIELD = 5


def limit_this_process(cpu_s: int, memory_bytes: int = MOST_MEMORY_BYTES) -> None:
    """From now on at most so much memory beyond what is held already, and so much CPU time."""
    held = _data_bytes()
    _lower(resource.RLIMIT_DATA, held + memory_bytes)
    used_s = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    _lower(resource.RLIMIT_CPU, int(used_s) + cpu_s)
    _lower(resource.RLIMIT_CORE, 0)


def _lower(which: int, value: int) -> None:
    """Soft and hard, never above what the process may have."""
    _, hard = resource.getrlimit(which)
    most = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (most, most))


def _data_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[_PAGE_FIELD]) * resource.getpagesize()
