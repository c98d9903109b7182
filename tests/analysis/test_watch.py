"""Rules on jobs without a hook: what they say of the machine, and what they leave open."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slurm_io.analysis.picture import take_picture
from slurm_io.analysis.rules.base import Answer
from slurm_io.analysis.thresholds import Thresholds
from tests.analysis.rules.stores import (
    GIB,
    Row,
    answer,
    healthy,
    healthy_gpu,
    job,
    put,
    text_of,
    with_healthy_tables,
)
from tests.analysis.stand_in import StandInStore


def unhooked(steps: int = 3000) -> StandInStore:
    """A job that nobody timed a batch of, and nobody recorded stacks of: 160 s of counters."""
    store = with_healthy_tables(job(healthy(steps)))
    for table in ("steps", "events", "stacks"):
        store.nodes["n1"].tables[table].clear()
    return store


def with_rows(table: str, row: Callable[[int], Row | list[Row]], steps: int = 3000) -> StandInStore:
    store = unhooked(steps)
    store.nodes["n1"].tables[table].clear()
    put(store, table, row)
    return store


def resending(second: int) -> Row:
    return {"mount": "/scratch", "fstype": "nfs4", "source": "mountstats", "op_class": "read",
            "ops": 500, "retrans": 20, "rtt_ms": 2.0, "queue_ms": 0.1}  # fmt: skip


def hot(second: int) -> list[Row]:
    return [healthy_gpu(0) | {"throttle_reasons": 0x40, "temperature_c": 92}, healthy_gpu(1)]


def throttled(second: int) -> Row:
    return {"path": "job_42", "version": 2, "cpu_ns": 4 * 10**9, "throttled_periods": 8,
            "mem_limit_bytes": 400 * GIB, "psi_cpu_some_ns": 10**7}  # fmt: skip


def test_the_job_is_looked_at_without_its_first_tenth_and_last_twentieth() -> None:
    watch = take_picture(unhooked(), Thresholds()).watch
    [(node, opens, closes)] = watch.spans.rows()
    assert (watch.by, watch.is_training, node) == ("job", False, "n1")
    assert opens / 1e9 == pytest.approx(95 + 0.10 * (watch.seconds / 0.85), abs=1)
    assert closes / 1e9 == pytest.approx(opens / 1e9 + watch.seconds, abs=1)


def test_a_hook_says_when_the_job_trained() -> None:
    watch = take_picture(job(healthy()), Thresholds()).watch
    assert (watch.by, watch.is_training) == ("hook", True)


def test_resends_are_a_fact_whoever_waited_for_them() -> None:
    said = answer("f18_nfs_retransmissions", with_rows("fsclient", resending))
    [finding] = said.findings
    assert (finding.severity, finding.confidence) == ("info", "likely")
    assert "whether training waited for it is not known" in text_of(said)
    assert "nobody saw a step" in text_of(said)


def test_a_quota_that_throttles_is_a_fact_and_its_cost_is_not_known() -> None:
    said = answer("f22_cpu_starved", with_rows("cgroup", throttled))
    [finding] = said.findings
    assert finding.severity == "info"
    assert "waiting for preparation" not in text_of(said), "nobody saw it wait"


def test_a_hot_gpu_is_a_fact_only_while_it_is_busy() -> None:
    busy, idle = with_rows("gpu", hot), with_rows(
        "gpu", lambda second: [row | {"util_share": 0.0} for row in hot(second)]
    )  # fmt: skip
    for store in (busy, idle):
        gpus = [{"gpu": number, "vendor": "nvidia", "name": "H100"} for number in range(2)]
        store.nodes["n1"].meta["sources"]["gpu"] = {"state": "on", "gpus": gpus}
    [finding] = answer("f20_gpu_slowed", busy).findings
    assert finding.confidence == "likely"
    assert answer("f20_gpu_slowed", idle).state == "quiet"


def test_tasks_that_queue_for_a_cpu_prove_nothing_without_a_loss() -> None:
    pressed = with_rows("cgroup", lambda second: throttled(second) | {
        "throttled_periods": 0, "psi_cpu_some_ns": 9 * 10**8})  # fmt: skip
    said = answer("f22_cpu_starved", pressed)
    assert said.state == "not enough evidence"


@pytest.mark.parametrize(
    "rule",
    ["f18_nfs_retransmissions", "f20_gpu_slowed", "f22_cpu_starved", "f05_space_running_out"],
)
def test_nothing_wrong_with_the_machine_never_fires(rule: str) -> None:
    assert answer(rule, unhooked()).state != "fired"


@pytest.mark.parametrize(
    "rule",
    ["f01_loader_bound", "f02_step_variance", "f03_single_node_checkpoint", "f07_shallow_queue",
     "f09_index_growth", "f15_straggler", "f16_small_reads", "f17_page_cache_thrash",
     "f19_gc_pauses", "f21_collective_straggler", "f24_padding"],
)  # fmt: skip
def test_what_needs_training_says_so(rule: str) -> None:
    said: Answer = answer(rule, unhooked())
    assert (said.state, "hook" in said.reason) == ("not enough evidence", True)


@pytest.mark.parametrize("rule", ["f18_nfs_retransmissions", "f20_gpu_slowed", "f22_cpu_starved"])
def test_less_than_a_minute_is_the_start_of_a_job(rule: str) -> None:
    short = with_rows("fsclient", resending, steps=1000)
    assert take_picture(short, Thresholds()).watch.seconds < 60
    assert answer(rule, short).state == "not enough evidence"


def test_a_damaged_clock_is_no_stretch_of_time() -> None:
    for key, value in (("clock", None), ("start_ts_ns", "x"), ("end_ts_ns", 5)):
        store = with_rows("fsclient", resending)
        store.nodes["n1"].meta[key] = value
        assert answer("f18_nfs_retransmissions", store).state == "not enough evidence"
