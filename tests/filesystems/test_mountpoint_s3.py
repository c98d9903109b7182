"""Mountpoint for Amazon S3: its log lines of one period, every value."""

from __future__ import annotations

import pytest

from slurm_io.filesystems.client_counters import ClientFigures
from slurm_io.filesystems.mountpoint_s3 import S3Metric, figures_of, parse_log
from tests.filesystems.client_samples import sample

LATENCY = "n=2: min=1 p10=1 p50=1 avg=1500.00 p90=2 p99=2 p99.9=2 max=2000"
NONE = ClientFigures(None, None, None, None, None, None, None, None)


def test_every_value_of_the_recorded_lines() -> None:
    log = parse_log(sample("fuse_s3/mountpoint_s3_metrics_log.txt"))
    assert log.damaged == 0
    assert log.metrics == (
        S3Metric("", "fuse.io_size", {"type": "read"}, 4, 26494.0, None, 70143),
        S3Metric("", "fuse.op_latency_us", {"op": "lookup"}, 8, 62632.0, None, 95231),
        S3Metric("", "fuse.op_latency_us", {"op": "open"}, 3, 54037.33, None, 73727),
        S3Metric("", "fuse.total_bytes", {"type": "read"}, 4, None, 105584, None),
    )


def test_figures_of_the_recorded_lines() -> None:
    log = parse_log(sample("fuse_s3/mountpoint_s3_metrics_log.txt"))
    assert figures_of(log.metrics) == {
        "meta": NONE._replace(ops=11, exe_ms=pytest.approx((8 * 62.632 + 3 * 54.03733) / 11)),
        # How long reads took is not among the lines.
        "read": NONE._replace(ops=4, bytes=105584),
    }


@pytest.mark.parametrize(
    "line",
    [
        "mountpoint_s3::metrics: fuse.op_latency_us[op=read]: " + LATENCY,
        "mountpoint_s3_fs::metrics: fuse.request_latency[fuse_request=read]: " + LATENCY,
    ],
)
def test_older_and_newer_names(line: str) -> None:
    log = parse_log(f"2026-01-02T03:04:05.000001Z  INFO {line}")
    assert log.metrics[0].at == "2026-01-02T03:04:05.000001Z"
    assert figures_of(log.metrics) == {"read": NONE._replace(ops=2, exe_ms=1.5)}


def test_other_lines_are_passed_over_and_unknown_forms_counted() -> None:
    log = parse_log(
        "[WARN] mountpoint_s3_fs::fs: read failed\n"
        "[INFO] mountpoint_s3_fs::metrics: fuse.op_latency_us[op=read]: mean=3\n"
        f"[INFO] mountpoint_s3_fs::metrics: fuse.total_bytes[type=read]: {2**64} (n=2)\n"
    )
    assert (log.metrics, log.damaged) == ((), 2)
