"""Limits of the child that reads a user's files: really kept by the kernel."""

from __future__ import annotations

import resource

from slurm_io.host.probe import probe
from slurm_io.staging.checkpoints.limits import limit_this_process

MIB = 2**20


def allocate(limit_bytes: int, size_bytes: int) -> int:
    limit_this_process(cpu_s=20, memory_bytes=limit_bytes)
    return len(bytearray(size_bytes))


def burn(cpu_s: int) -> None:
    limit_this_process(cpu_s=cpu_s)
    while True:
        pass


def limits_kept() -> list[int]:
    limit_this_process(cpu_s=20)
    return [resource.getrlimit(resource.RLIMIT_CORE)[1], resource.getrlimit(resource.RLIMIT_CPU)[1]]


def test_memory_beyond_the_limit_is_refused() -> None:
    assert probe(allocate, 64 * MIB, 16 * MIB, timeout_s=60).value == 16 * MIB
    refused = probe(allocate, 64 * MIB, 256 * MIB, timeout_s=60)
    assert (refused.state, refused.reason[:11]) == ("error", "MemoryError")


def test_a_child_that_computes_without_end_is_ended() -> None:
    ended = probe(burn, 1, timeout_s=120)
    assert (ended.state, ended.reason) == ("error", "the child ended without an answer")


def test_no_core_file_and_no_more_cpu_than_said() -> None:
    core, cpu_s = probe(limits_kept, timeout_s=60).value
    assert core == 0
    assert cpu_s < 3600
