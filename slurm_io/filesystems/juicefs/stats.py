"""JuiceFS's ``.stats``: what the mount's daemon counted since it started.

Community edition, ``name value`` (times in seconds)::

    juicefs_fuse_read_size_bytes_total 310652
    juicefs_fuse_read_size_bytes_sum 40717671794

Enterprise edition, ``name: value`` with other names (times in µs)::

    fuse_ops.read: 29264056
    read_bytes: 3269189737736

and the HTTP endpoint, with labels and numbers as 3.288597e+06. Histograms show ``_total`` (how
many) and ``_sum``. Block cache misses are called ``blockcache_miss``, hits ``blockcache_hits``.
Times by operation come with newer community versions only. Source: JuiceFS, pkg/vfs.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from slurm_io.filesystems.client_counters import ClientCounters, OpClass
from slurm_io.filesystems.counter_text import LARGEST

_LINE = re.compile(
    r"(?P<name>[A-Za-z][\w./-]*)(?:\{(?P<labels>[^{}]*)\})?(?P<colon>:)?\s+"
    r"(?P<value>[0-9]{1,40}(?:\.[0-9]{1,40})?(?:e[+-]?[0-9]{1,3})?)",
    re.ASCII,
)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_NAMING_LABELS = ("method", "errno")
_DURATIONS = "juicefs_object_request_durations_histogram_seconds"
_ALL = "juicefs_fuse_ops_durations_histogram_seconds"
USED_NAMES = frozenset(
    (
        "juicefs_uptime",
        "juicefs_object_request_errors",
        *(f"juicefs_blockcache_{name}" for name in ("hits", "miss", "hit_bytes", "miss_bytes")),
        *(
            f"juicefs_fuse_{name}_size_bytes_{sort}"
            for name in ("read", "written")
            for sort in ("total", "sum")
        ),
        *(f"juicefs_fuse_ops_durations_seconds_{name}" for name in ("read", "write")),
        *(f"{_DURATIONS}_{name}_{sort}" for name in ("GET", "PUT") for sort in ("total", "sum")),
        *(f"{_ALL}_{sort}" for sort in ("total", "sum")),
        *("uptime", "object.error", "fuse_ops", "fuse_ops.read", "fuse_ops.write"),
        *("read_bytes", "write_bytes", "object.get", "object.put"),
        *("objectDuration.get", "objectDuration.put"),
        *(f"blockcache.{name}" for name in ("hits", "miss", "hitBytes", "missBytes")),
    )
)
"""All that :func:`counters_of` and its like look at."""

Edition = Literal["community", "enterprise"]


class JuiceStats(NamedTuple):
    """Values by name; a label `method` or `errno` is part of the name, as in ``.stats``."""

    edition: Edition
    values: dict[str, float]
    damaged: int


class JuiceCounters(NamedTuple):
    """What one class of operations adds up to, and its requests to the object store, whose number
    is another one: a read may be served by the cache, a block by several reads."""

    operations: ClientCounters
    store_requests: int | None
    store_ns: int | None


def parse_stats(text: str) -> JuiceStats:
    """Never raises. Lines whose value is no number from 0 to 2^63 (lists, -1) count as damaged."""
    values: dict[str, float] = {}
    damaged = colons = 0
    for line in filter(None, map(str.strip, text.splitlines())):
        found = None if line.startswith("#") else _LINE.fullmatch(line)
        number = _number(found["value"]) if found else LARGEST
        if found is None or number >= LARGEST:
            damaged += not line.startswith("#")
            continue
        colons += found["colon"] is not None
        values[_name(found)] = number
    edition: Edition = "enterprise" if 2 * colons > len(values) else "community"
    return JuiceStats(edition, values, damaged)


def counters_of(stats: JuiceStats) -> dict[OpClass, JuiceCounters]:
    """read, write and meta of a mount; a class of which nothing is told is left out."""
    found = _enterprise(stats.values) if stats.edition == "enterprise" else _community(stats.values)
    return {name: each for name, each in found.items() if each.operations.ops is not None}


def started_s(stats: JuiceStats) -> float:
    """How long the daemon runs; 0 when it does not say. A smaller number than before: it started
    anew."""
    name = "uptime" if stats.edition == "enterprise" else "juicefs_uptime"
    return stats.values.get(name, 0.0)


def cache_of(stats: JuiceStats) -> dict[str, int]:
    """Block cache totals: hits, misses and their bytes, as far as they are told."""
    names = (
        ("hits", "blockcache_hits", "hits"),
        ("misses", "blockcache_miss", "miss"),
        ("hit_bytes", "blockcache_hit_bytes", "hitBytes"),
        ("miss_bytes", "blockcache_miss_bytes", "missBytes"),
    )
    is_enterprise = stats.edition == "enterprise"
    return {
        ours: int(stats.values[name])
        for ours, community, enterprise in names
        if (name := f"blockcache.{enterprise}" if is_enterprise else f"juicefs_{community}")
        in stats.values
    }


def _number(text: str) -> float:
    """Whole numbers stay whole: bytes may pass 2^53."""
    return int(text) if text.isdigit() else float(text)


def _name(found: re.Match[str]) -> str:
    """Labels that tell metrics apart become part of the name; volume and mount do not."""
    labels = dict(_LABEL.findall(found["labels"] or ""))
    added = [labels[label] for label in _NAMING_LABELS if label in labels]
    return "_".join([found["name"], *added])


def _community(values: dict[str, float]) -> dict[OpClass, JuiceCounters]:
    sizes = {"read": "juicefs_fuse_read_size_bytes", "write": "juicefs_fuse_written_size_bytes"}
    methods = {"read": "GET", "write": "PUT"}

    def of(name: str) -> JuiceCounters:
        operations = ClientCounters(
            ops=_whole(values.get(f"{sizes[name]}_total")),
            bytes=_whole(values.get(f"{sizes[name]}_sum")),
            exe_ns=_ns(values.get(f"juicefs_fuse_ops_durations_seconds_{name}"), 1e9),
        )
        request = f"{_DURATIONS}_{methods[name]}"
        return JuiceCounters(
            operations,
            _whole(values.get(f"{request}_total")),
            _ns(values.get(f"{request}_sum"), 1e9),
        )

    every = ClientCounters(
        ops=_whole(values.get(f"{_ALL}_total")), exe_ns=_ns(values.get(f"{_ALL}_sum"), 1e9)
    )
    return _with_meta(of("read"), of("write"), every)


def _enterprise(values: dict[str, float]) -> dict[OpClass, JuiceCounters]:
    methods = {"read": "get", "write": "put"}

    def of(name: str) -> JuiceCounters:
        operations = ClientCounters(
            ops=_whole(values.get(f"fuse_ops.{name}")), bytes=_whole(values.get(f"{name}_bytes"))
        )
        return JuiceCounters(
            operations,
            _whole(values.get(f"object.{methods[name]}")),
            _ns(values.get(f"objectDuration.{methods[name]}"), 1e3),
        )

    # The sum of times covers all operations and cannot be split.
    return _with_meta(of("read"), of("write"), ClientCounters(ops=_whole(values.get("fuse_ops"))))


def _with_meta(
    read: JuiceCounters, write: JuiceCounters, every: ClientCounters
) -> dict[OpClass, JuiceCounters]:
    """`meta`: all operations less the reads and writes; unknown when one of the three is."""
    parts = (read.operations, write.operations)
    meta = ClientCounters(
        ops=_less(every.ops, [part.ops for part in parts]),
        exe_ns=_less(every.exe_ns, [part.exe_ns for part in parts]),
    )
    return {"read": read, "write": write, "meta": JuiceCounters(meta, None, None)}


def _less(whole: int | None, parts: list[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    if whole is None or len(known) != len(parts):
        return None
    return max(0, whole - sum(known))


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _ns(value: float | None, unit_ns: float) -> int | None:
    total_ns = None if value is None else int(value * unit_ns)
    return total_ns if total_ns is not None and total_ns < LARGEST else None
