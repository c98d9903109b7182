"""Ceph's requests in flight: ``osdc`` (data servers) and ``mdsc`` (metadata servers) in debugfs.

::

    REQUESTS 1 homeless 0
    12  osd1  2.2ad711d7  2.7  [1,2,0]/1  [1,2,0]/1  e15  10000000000.0  0x400024  1  read
    LINGER REQUESTS
    BACKOFFS

Kernels before 4.7 print the requests alone. ``mdsc`` has a line for each request::

    12      mds0    getattr  #100000003ed

A request that no server can take is "homeless" or has "(no session)": it waits for one to come.
Source: net/ceph/debugfs.c and fs/ceph/debugfs.c of the kernel.
"""

from __future__ import annotations

from typing import NamedTuple

_READS = {"read", "sparse-read", "sync_read", "stat", "getxattr", "getxattrs", "cmpxattr"}
_SECTIONS = ("LINGER REQUESTS", "BACKOFFS")


class OsdRequests(NamedTuple):
    """Requests to data servers not answered yet. `homeless` ones have no server to go to."""

    reads: int
    writes: int
    homeless: int


class MdsRequests(NamedTuple):
    """Requests to metadata servers not answered yet, unsafe replies (answered, not yet on disk)
    apart. `without_server`: no session to send them on."""

    waiting: int
    without_server: int


def parse_osdc(text: str) -> OsdRequests:
    """Lines that are no request are passed over."""
    reads = writes = homeless = 0
    for line in text.splitlines():
        if line.startswith(_SECTIONS):
            break
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) < 5 or not fields[0].isdigit():
            continue
        # The operations stand last: by commas in one field, or in fields of their own before 4.7.
        operations = set(fields[-1].split(","))
        reads += operations <= _READS
        writes += not operations <= _READS
        homeless += fields[1] == "osd-1"
    return OsdRequests(reads, writes, homeless)


def parse_mdsc(text: str) -> MdsRequests:
    """Lines that are no request are passed over."""
    waiting = without_server = 0
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) < 3 or not fields[0].strip().isdigit():
            continue
        if len(fields) > 3 and fields[3].startswith("(unsafe)"):
            continue
        waiting += 1
        without_server += fields[1].startswith("(no ")
    return MdsRequests(waiting, without_server)
