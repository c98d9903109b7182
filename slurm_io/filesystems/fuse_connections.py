"""/sys/fs/fuse/connections/N/waiting: requests a FUSE daemon has not answered yet.

The kernel counts requests of every sort in one number: reads, writes, lookups, those still queued
in the kernel and readahead that nobody waits for. N is the device number of the file system as the
kernel holds it (20 bits of minor). The file takes no pread: it is opened for each reading.
Source: Documentation/filesystems/fuse.rst, fs/fuse/control.c.
"""

from __future__ import annotations

import os

from slurm_io.filesystems.counter_text import counter

_MINOR_BITS = 20
_LARGEST = 1 << 31
_LONGEST_BYTES = 64


def connection_number(major_minor: str) -> int | None:
    """Name of the connection's folder for ``"0:53"`` of mountinfo: 53."""
    major, _, minor = major_minor.partition(":")
    parts = counter(major), counter(minor)
    if parts[0] is None or parts[1] is None:
        return None
    return parts[0] << _MINOR_BITS | parts[1]


def read_waiting(path: str) -> bytes:
    """The file's content, empty when the connection just ended.

    Raises:
        OSError: it is not there, or not ours to read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _LONGEST_BYTES)
    finally:
        os.close(descriptor)


def parse_waiting(content: bytes) -> int | None:
    """The number; None when it is none."""
    number = counter(content.decode("ascii", "replace").strip())
    return number if number is not None and number < _LARGEST else None
