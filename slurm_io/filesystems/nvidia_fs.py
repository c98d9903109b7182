"""/proc/driver/nvidia-fs/stats: GPUDirect Storage on this node since its driver was loaded.

::

    IO stats: Enabled, peer IO stats: Disabled
    Reads   : n=1048576 ok=1048576 err=0 readMiB=1048576 io_state_err=0
    Reads   : Bandwidth(MiB/s)=13224 Avg-Latency(usec)=594
    Ops     : Read=5 Write=3 BatchIO=2

With "IO stats: Disabled" the counters are not shown, or stay 0. The whole node in one, whatever the
file system; Weka and GPFS do their GPUDirect I/O themselves and never show here. Bytes are cut to
whole MiB; the latency is the driver's mean over its last second with I/O.
Source: NVIDIA/gds-nvidia-fs, nvfs-stat.c; NVIDIA's GPUDirect Storage guide, 13.3.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from slurm_io.filesystems.counter_text import LARGEST, counter

_PAIR = re.compile(r"([A-Za-z][\w()/-]*)=(\d+)", re.ASCII)
_MIB = 1 << 20
_MOST_INFLIGHT = 1 << 31  # a 32-bit number that fell below 0 is shown as a large one


class GdsOperations(NamedTuple):
    """Reads or writes. None = not shown. `mean_us` is of the last second with I/O."""

    started: int | None
    completed: int | None
    errors: int | None
    bytes: int | None
    mean_us: int | None
    inflight: int | None


class GdsStats(NamedTuple):
    """`counts_io` None: the file does not say. `driver` is nvidia-fs's own version, `processes`
    how many use it now."""

    counts_io: bool | None
    driver: str | None
    processes: int | None
    reads: GdsOperations
    writes: GdsOperations


def parse_stats(text: str) -> GdsStats:
    """Never raises; lines without a known label mean nothing here."""
    pairs: dict[str, dict[str, int]] = {}
    counts_io: bool | None = None
    driver: str | None = None
    processes: int | None = None
    for line in text.splitlines():
        label, _, rest = line.partition(":")
        label = label.strip()
        if label == "IO stats":
            counts_io = {"Enabled": True, "Disabled": False}.get(rest.split(",")[0].strip())
        elif label == "Active Process":
            processes = counter(rest.strip())
        elif found := re.fullmatch(r"NVFS Driver\(version: ?([\w.]{1,40})\)", line.strip()):
            driver = found[1]
        numbers = ((name, counter(number)) for name, number in _PAIR.findall(rest))
        known = {name: number for name, number in numbers if number is not None}
        pairs.setdefault(label, {}).update(known)
    inflight = pairs.get("Ops", {})
    return GdsStats(
        counts_io,
        driver,
        processes,
        _operations(pairs.get("Reads", {}), "readMiB", inflight.get("Read")),
        _operations(pairs.get("Writes", {}), "writeMiB", inflight.get("Write")),
    )


def _operations(pairs: dict[str, int], mib: str, inflight: int | None) -> GdsOperations:
    size_mib = pairs.get(mib)
    size_bytes = None if size_mib is None else size_mib * _MIB
    return GdsOperations(
        pairs.get("n"),
        pairs.get("ok"),
        pairs.get("err"),
        size_bytes if size_bytes is not None and size_bytes < LARGEST else None,
        pairs.get("Avg-Latency(usec)"),
        inflight if inflight is not None and inflight < _MOST_INFLIGHT else None,
    )
