"""Values of expressions over a known job."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from slurm_io.analysis.picture import Picture, take_picture
from slurm_io.analysis.report import report_of
from slurm_io.analysis.site_rules.evaluate import Evaluator, Unknown
from slurm_io.analysis.site_rules.grammar import parse
from slurm_io.analysis.thresholds import Thresholds
from tests.analysis.rules.stores import GIB, Row, healthy, job, put
from tests.analysis.stand_in import StandInStore


def client(second: int) -> list[Row]:
    base = {"mount": "/scratch", "fstype": "nfs4", "source": "mountstats"}
    slow = second % 4 == 0
    return [
        {**base, "op_class": "read", "ops": 100, "rtt_ms": 40.0 if slow else 2.0, "bytes": 10**6},
        {**base, "op_class": "meta", "ops": 10, "rtt_ms": None},
    ]


def block(second: int) -> list[Row]:
    return [
        {"device": "nvme0n1", "role": "disk", "r_s": 100.0, "rkB_s": 1000.0, "util": 50.0},
        {"device": "md0", "role": "md", "r_s": 0.0, "rkB_s": 1000.0, "stuck": True},
    ]


def made() -> StandInStore:
    store = job(healthy(1200))
    put(store, "fsclient", client)
    put(store, "block", block)
    put(store, "cgroup", lambda second: {"path": "job_1", "version": 2, "mem_limit_bytes": 4 * GIB,
                                         "mem_anon_bytes": GIB})  # fmt: skip
    put(store, "capacity", lambda second: {"mount": "/scratch", "fstype": "nfs4",
                                           "avail_bytes": 7 * 10**9}, interval=False)  # fmt: skip
    return store


@cache
def seen() -> tuple[Picture, dict[str, Any]]:
    picture = take_picture(made(), Thresholds())
    return picture, report_of(picture)


def value(text: str, wanted: Any = "number") -> float:
    return Evaluator(*seen()).value(parse(text, wanted))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1 + 2 * 3 - 4 / 2", 5),
        ("-(2 - 5)", 3),
        ("time.steps", 1200),
        ("job.nodes", 1),
        ("larger(time.steps, 5)", 1200),
        ("smaller(time.steps, 5)", 5),
        ("p50(fsclient.rtt_ms)", 2),
        ("p99(fsclient.rtt_ms, op_class='read')", 40),
        ("max(fsclient.rtt_ms) - min(fsclient.rtt_ms)", 38),
        ("base_unit(max(fsclient.rtt_ms))", 0.04),
        ("base_unit(mean(block.util))", 0.5),
        ("mean(base_unit(fsclient.rtt_ms) * 100)", 1.15),
        ("mean(cgroup.mem_anon_bytes / cgroup.mem_limit_bytes)", 0.25),
        ("mean(block.rkB_s / block.r_s)", 10),
        ("mean(block.r_s, device='md0')", 0),
        ("last(capacity.avail_bytes, mount='/scratch')", 7e9),
        ("share_of_time(fsclient.rtt_ms > 10)", 0.25),
        ("share_of_time(fsclient.rtt_ms > 10, op_class='read')", 0.25),
        ("share_of_time(not block.r_s > 0)", 0.5),
        ("share_of_time(block.r_s > 0 and block.util > 40)", 0.5),
        ("share_of_time(block.stuck)", 1),
    ],
)
def test_known_values(text: str, wanted: float) -> None:
    assert value(text) == pytest.approx(wanted, rel=0.04)


def test_sums_and_counts_are_of_rows_in_training() -> None:
    rows = value("count(fsclient.bytes)")
    assert 50 < rows < 65, "62 s of training without warm-up"
    assert value("sum(fsclient.bytes)") == pytest.approx(rows * 10**6)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time.steps / (time.steps - 1200)", "divides by zero: time.steps - 1200 is 0"),
        ("mean(gpu.util_share)", "table gpu has no rows"),
        ("mean(fsclient.rtt_ms, mount='/other')", "no rows"),
        ("mean(fsclient.rtt_ms, op_class='meta')", "no rows of the training that tell it"),
        ("mean(block.rkB_s / block.r_s, device='md0')", "no rows of the training that tell it"),
        ("job.gpus", "job.gpus is not known"),
    ],
)  # fmt: skip
def test_what_is_not_known_says_what_and_why(text: str, words: str) -> None:
    with pytest.raises(Exception, match=words.replace("(", r"\(")):
        value(text)


def test_a_number_beyond_all_numbers_is_unknown() -> None:
    with pytest.raises(Unknown, match="not a finite number"):
        value("(1e18*1e18*1e18*1e18*1e18*1e18)*(1e18*1e18*1e18*1e18*1e18*1e18)"
              "*(1e18*1e18*1e18*1e18*1e18*1e18)")  # fmt: skip


def test_and_or_look_no_further_than_needed() -> None:
    assert value("time.steps > 1 or job.gpus > 1", "truth") == 1
    assert value("time.steps < 1 and job.gpus > 1", "truth") == 0
    with pytest.raises(Unknown):
        value("time.steps > 1 and job.gpus > 1", "truth")


def test_a_job_without_training_has_no_rows_but_fields_that_are_null() -> None:
    picture = take_picture(StandInStore(None, {}, ()), Thresholds())
    evaluator = Evaluator(picture, report_of(picture))
    for text in ("idle.storage", "time.steps", "mean(block.r_s)", "mean(steps.data_wait_ns)"):
        with pytest.raises(Unknown):
            evaluator.value(parse(text))
