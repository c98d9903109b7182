"""job_stats of a server and io_latency_stats of an osc.

job_stats exists on servers only (mdt.*.job_stats, obdfilter.*.job_stats), so no collector of a
client reads it; it is for texts that an administrator brings.
"""

from __future__ import annotations

from typing import NamedTuple

from slurm_io.filesystems.lustre.nested import Node, at, number_at, parse_nested, text_at
from slurm_io.filesystems.lustre.stats import Counter

_DIRECTIONS = {"rd": "read", "wr": "write"}


class JobStats(NamedTuple):
    """One job's counters on one target. `job_id` is as the cluster's jobid_var made it."""

    job_id: str
    snapshot_time: str | None
    counters: dict[str, Counter]


def parse_job_stats(text: str) -> list[JobStats]:
    """All jobs of one target's job_stats; none when it is empty."""
    jobs = at(parse_nested(text), "job_stats")
    return [_job(job) for job in jobs if isinstance(job, dict)] if isinstance(jobs, list) else []


def parse_io_latency(text: str) -> dict[tuple[str, str], dict[int, int]]:
    """io_latency_stats (2.16.59 and later): ("read", "64K") -> RPCs by latency, a bound in us.

    The file's start_time counts from boot while its snapshot_time is wall clock: neither is read.
    """
    found: dict[tuple[str, str], dict[int, int]] = {}
    root = parse_nested(text)
    for key, row in root.items():
        kind, _, size = key.partition("_")
        if kind not in _DIRECTIONS or not isinstance(row, dict):
            continue
        counts = {bound: number_at(row, bound) for bound in row}
        found[_DIRECTIONS[kind], size] = {
            int(bound.removesuffix("us")): count
            for bound, count in counts.items()
            if count is not None and bound.removesuffix("us").isdecimal() and len(bound) < 20
        }
    return found


def _job(job: dict[str, Node]) -> JobStats:
    counters = {
        name: Counter(
            samples,
            text_at(row, "unit") or "",
            *(number_at(row, column) for column in ("min", "max", "sum", "sumsq")),
        )
        for name, row in job.items()
        if (samples := number_at(row, "samples")) is not None
    }
    return JobStats(text_at(job, "job_id") or "", text_at(job, "snapshot_time"), counters)
