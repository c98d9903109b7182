"""Mountpoint for Amazon S3: the lines its daemon logs with ``--log-metrics``, every five seconds.

::

    2026-01-02T03:04:05.000000Z  INFO mountpoint_s3_fs::metrics: fuse.op_latency_us[op=open]: n=3: …
    [INFO] mountpoint_s3_fs::metrics: fuse.io_size[type=read]: n=4: min=3184 … avg=26494.00 … max=…
    [INFO] mountpoint_s3_fs::metrics: fuse.total_bytes[type=read]: 105584 (n=4)

Each line covers the five seconds before it; what did not happen has no line. The target was
``mountpoint_s3::metrics`` before; ``fuse.op_latency_us[op=…]`` became
``fuse.request_latency[fuse_request=…]`` (µs too). The form is "subject to change": what is not
understood is counted, not guessed. Source: doc/LOGGING.md and metrics/data.rs of the project.

No collector reads this while a job runs: the log is off by default, lies where each user chose, and
its form is no promise. Requests that wait show for every FUSE mount (collector ``fuse``).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from slurm_io.filesystems.client_counters import ClientFigures, OpClass
from slurm_io.filesystems.counter_text import counter

PERIOD_S = 5
_LINE = re.compile(
    r"(?P<front>.*?)\b(?:mountpoint_s3|mountpoint_s3_fs)::metrics: "
    r"(?P<name>[\w.]+)(?:\[(?P<labels>[^\]]*)\])?: (?P<value>.*)",
    re.ASCII,
)
_STAMP = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?Z?", re.ASCII)
_HISTOGRAM = re.compile(
    r"n=(?P<n>\d+): min=\d+ (?:p[\d.]+=\d+ )*avg=(?P<avg>\d{1,20}(?:\.\d{1,9})?) "
    r"(?:p[\d.]+=\d+ )*max=(?P<max>\d+)",
    re.ASCII,
)
_COUNTER = re.compile(r"(?P<sum>\d+)(?: \(n=(?P<n>\d+)\))?", re.ASCII)
_TIMES = ("fuse.op_latency_us", "fuse.request_latency")
_OPERATION_LABELS = ("op", "fuse_request", "type")
_LARGEST_MEAN = float(1 << 53)


class S3Metric(NamedTuple):
    """One line. `mean` is a histogram's; `total` a counter's sum over the period."""

    at: str
    name: str
    labels: dict[str, str]
    n: int
    mean: float | None
    total: int | None
    largest: int | None


class S3Log(NamedTuple):
    """All metric lines of a log, and how many looked like one and were of another shape."""

    metrics: tuple[S3Metric, ...]
    damaged: int


def parse_log(text: str) -> S3Log:
    """Lines of other targets are passed over."""
    metrics = []
    damaged = 0
    for line in text.splitlines():
        found = _LINE.fullmatch(line.strip())
        metric = _metric(found) if found else None
        if metric is not None:
            metrics.append(metric)
        elif found is not None:
            damaged += 1
    return S3Log(tuple(metrics), damaged)


def figures_of(metrics: tuple[S3Metric, ...]) -> dict[OpClass, ClientFigures]:
    """What the lines of one period say of reads, writes and all other requests.

    Time is the daemon's, from taking a request to answering it: `exe_ms`. The object store's share
    of it is not told by operation.
    """
    ops: dict[OpClass, int] = {}
    sized: dict[OpClass, int] = {}
    time_us: dict[OpClass, float] = {}
    moved: dict[OpClass, int] = {}
    for metric in metrics:
        name = _class_of(metric)
        if metric.name in _TIMES and metric.mean is not None:
            ops[name] = ops.get(name, 0) + metric.n
            time_us[name] = time_us.get(name, 0.0) + metric.n * metric.mean
        elif metric.name == "fuse.io_size" and name != "meta":
            sized[name] = sized.get(name, 0) + metric.n
        elif metric.name == "fuse.total_bytes" and metric.total is not None and name != "meta":
            moved[name] = moved.get(name, 0) + metric.total
    return {
        name: ClientFigures(
            ops=ops.get(name, sized.get(name)),
            bytes=moved.get(name),
            rtt_ms=None,
            exe_ms=time_us[name] / ops[name] / 1000 if ops.get(name) else None,
            queue_ms=None,
            retrans=None,
            errors=None,
            inflight=None,
        )
        for name in dict.fromkeys([*ops, *sized, *moved])
    }


def _metric(found: re.Match[str]) -> S3Metric | None:
    stamp = _STAMP.search(found["front"])
    pairs = (label.partition("=") for label in (found["labels"] or "").split(","))
    labels = {name.strip(): value for name, equals, value in pairs if equals}
    at = stamp[0] if stamp else ""
    if histogram := _HISTOGRAM.fullmatch(found["value"]):
        count, largest = counter(histogram["n"]), counter(histogram["max"])
        mean = float(histogram["avg"])
        if count is None or largest is None or mean >= _LARGEST_MEAN:
            return None
        return S3Metric(at, found["name"], labels, count, mean, None, largest)
    if plain := _COUNTER.fullmatch(found["value"]):
        total, count = counter(plain["sum"]), counter(plain["n"] or "1")
        if total is None or count is None:
            return None
        return S3Metric(at, found["name"], labels, count, None, total, None)
    return None


def _class_of(metric: S3Metric) -> OpClass:
    name = next((metric.labels[key] for key in _OPERATION_LABELS if key in metric.labels), "")
    return "read" if name == "read" else "write" if name == "write" else "meta"
