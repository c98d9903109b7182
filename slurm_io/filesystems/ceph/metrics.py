"""Ceph's ``metrics`` in debugfs: latencies and sizes of this mount since it was made.

One file ``metrics``, later a folder ``metrics/`` with ``file latency size caps``; the tables are
the same, with other columns and rows as versions go by, so columns are found by their header::

    item          total       avg_lat(us)     min_lat(us)     max_lat(us)     stdev(us)
    -----------------------------------------------------------------------------------
    write         5           914013          824797          1092343         103476

Source: fs/ceph/debugfs.c of the kernel.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from slurm_io.filesystems.counter_text import counter

_ITEMS = {"read", "write", "metadata", "copyfrom"}


class CephLatency(NamedTuple):
    """`ops` operations whose mean time is `mean_us`, rounded."""

    ops: int
    mean_us: int


class CephSize(NamedTuple):
    """`ops` operations that moved `total_bytes`."""

    ops: int
    total_bytes: int


class CephHits(NamedTuple):
    """Leases or capabilities held, and how often one was there when needed."""

    total: int
    misses: int
    hits: int


class CephMetrics(NamedTuple):
    """By the item's name: read, write, metadata, copyfrom; d_lease, caps; opened files, …"""

    latencies: dict[str, CephLatency]
    sizes: dict[str, CephSize]
    hits: dict[str, CephHits]
    inodes: dict[str, int]
    damaged: int


def parse_metrics(text: str) -> CephMetrics:
    """The file, or the folder's files one behind the other; lines of other shapes are counted."""
    metrics = CephMetrics({}, {}, {}, {}, 0)
    columns: list[str] = []
    damaged = 0
    for line in map(str.rstrip, text.splitlines()):
        words = line.split()
        if words[:1] == ["item"]:
            columns = words[1:]
        elif line.strip("-") and not _take(metrics, columns, line):
            damaged += 1
    return metrics._replace(damaged=damaged)


def _take(metrics: CephMetrics, columns: list[str], line: str) -> bool:
    """File one row under its table; False when it has not that table's shape."""
    if columns == ["total"]:
        return _take_inodes(metrics, line)
    name, *words = line.split()
    values = {column: counter(word) for column, word in zip(columns, words, strict=False)}
    count = values.get("total")
    if count is None or len(words) != len(columns):
        return False
    mean_us, total_bytes = values.get("avg_lat(us)"), values.get("total_sz(bytes)")
    misses, hits = values.get("miss"), values.get("hit")
    if name in _ITEMS and mean_us is not None:
        metrics.latencies[name] = CephLatency(count, mean_us)
    elif name in _ITEMS and total_bytes is not None:
        metrics.sizes[name] = CephSize(count, total_bytes)
    elif misses is not None and hits is not None:
        metrics.hits[name] = CephHits(count, misses, hits)
    else:
        return False
    return True


def _take_inodes(metrics: CephMetrics, line: str) -> bool:
    """``opened files  / total inodes       0 / 4``, later ``opened files       0``."""
    found = re.fullmatch(r"(\D*?)\s{2,}(\d{1,20})(?: / (\d{1,20}))?", line, re.ASCII)
    if found is None:
        return False
    names = [" ".join(name.split()) for name in found[1].split("/")]
    numbers = [counter(number) for number in found.groups()[1:] if number is not None]
    if len(names) != len(numbers) or None in numbers:
        return False
    pairs = zip(names, numbers, strict=True)
    metrics.inodes.update({name: number for name, number in pairs if number is not None})
    return True
