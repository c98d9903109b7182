"""What mmpmon's line of one file system means for each class of operations."""

from __future__ import annotations

from slurm_io.filesystems.client_counters import ClientCounters, OpClass
from slurm_io.filesystems.gpfs.mmpmon import GpfsIo


def counters_of(line: GpfsIo) -> dict[OpClass, ClientCounters]:
    """``meta`` are opens, closes, readdirs and inode updates. GPFS tells no times here."""
    others = line.opens + line.closes + line.readdirs + line.inode_updates
    return {
        "read": ClientCounters(ops=line.reads, bytes=line.read_bytes),
        "write": ClientCounters(ops=line.writes, bytes=line.written_bytes),
        "meta": ClientCounters(ops=others),
    }
