"""nvidia-fs: the recorded file, every value, and one with counting switched on.

The second is made after the driver's own printing (nvfs-stat.c).
"""

from __future__ import annotations

import pytest

from slurm_io.filesystems.nvidia_fs import GdsOperations, parse_stats
from tests.filesystems.client_samples import sample

ENABLED = """GDS Version: 1.11.1.6
NVFS statistics(ver: 4.0)
NVFS Driver(version: 2.22.3)
Mellanox PeerDirect Supported: True
IO stats: Enabled, peer IO stats: Disabled
Logging level: info

Active Shadow-Buffer (MiB): 12
Active Process: 2
Batches				: n=1 ok=1 err=0 Avg-Submit-Latency(usec)=3
Reads				: n=1010 ok=1000 err=5 readMiB=4096 io_state_err=0
Reads				: Bandwidth(MiB/s)=1024 Avg-Latency(usec)=594
Sparse Reads			: n=0 io=0 holes=0 pages=0
Writes				: n=20 ok=20 err=0 writeMiB=80 io_state_err=0 pg-cache=0
Writes				: Bandwidth(MiB/s)=12 Avg-Latency(usec)=1500
Mmap				: n=27 ok=27 err=0 munmap=27
Ops				: Read=5 Write=0 BatchIO=0
GPU 0000:2f:00.0  uuid:GPU-0 : Registered_MiB=0 Cache_MiB=0 max_pinned_MiB=2 cross_root_port(%)=0
"""


def test_every_value_of_the_recorded_file() -> None:
    stats = parse_stats(sample("gds/proc_driver_nvidia_fs_stats_v4.txt"))
    assert (stats.counts_io, stats.driver, stats.processes) == (False, "2.7.49", 0)
    # Without counting, operations are not shown: unknown, not 0. Errors and what runs are.
    hidden = GdsOperations(None, None, 0, None, None, 0)
    assert (stats.reads, stats.writes) == (hidden, hidden)


def test_with_counting_switched_on() -> None:
    stats = parse_stats(ENABLED)
    assert (stats.counts_io, stats.driver, stats.processes) == (True, "2.22.3", 2)
    assert stats.reads == GdsOperations(1010, 1000, 5, 4096 << 20, 594, 5)
    assert stats.writes == GdsOperations(20, 20, 0, 80 << 20, 1500, 0)


@pytest.mark.parametrize("word", ["", "Perhaps"])
def test_a_file_that_does_not_say_is_not_believed(word: str) -> None:
    text = ENABLED.replace("Enabled", word)
    assert parse_stats(text).counts_io is None


def test_numbers_no_counter_can_be_are_unknown() -> None:
    text = ENABLED.replace("ok=1000", f"ok={2**63}").replace("readMiB=4096", f"readMiB={2**62}")
    reads = parse_stats(text.replace("Read=5", "Read=4294967295")).reads
    assert (reads.completed, reads.bytes, reads.started) == (None, None, 1010)
    assert reads.inflight is None
