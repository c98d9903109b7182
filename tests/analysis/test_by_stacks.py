"""A job without a hook: stacks stand for it, with wider intervals, and what they cannot tell is not
told."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from slurm_io.analysis.report import build_report
from slurm_io.analysis.reports.text import render
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.store.schema import WAIT_CLASSES
from tests.analysis.report_shape import problems
from tests.analysis.stand_in import EPOCH_NS, NS, StandInNode, StandInStore, one_rank, train
from tests.analysis.stand_in import Job as HookedJob

HZ = 10
At = Callable[[float], str]
"""Time -> what the training thread is in: data_wait, ckpt, compute, collective, other."""
SUB = {"data_wait": "workers"}


class Seen:
    """A rank as the sampler sees it from outside: rows of stacks and waits on one grid."""

    def __init__(self, node: StandInNode, rank: int | None, pid: int, length_s: int) -> None:
        self.node, self.rank, self.pid, self.length_s = node, rank, pid, length_s
        self.chance = random.Random(pid)
        node.meta["ranks"].append({
            "rank": rank, "pid": pid, "starttime": 1, "told_by": "environ", "world_size": None,
            "numbered_by": None,
        })  # fmt: skip

    def stacks(
        self, at: At, sub: str | None = "workers", every_s: int = 15, first_s: int = 0, **more: Any
    ) -> Seen:
        """Windows of 5 s."""
        for second in range(first_s, self.length_s):
            if (second - first_s) % every_s >= 5:
                continue
            counts: dict[str, int] = {}
            for tenth in range(HZ):
                state = at(second + (tenth + self.chance.random()) / HZ)
                counts[state] = counts.get(state, 0) + 1
            for state, samples in counts.items():
                self.node.tables["stacks"].append({
                    **self._clock(second), "pid": self.pid, "rank": self.rank, "role": "rank",
                    "state": state, "sub": sub if state == "data_wait" else None,
                    "samples": samples, "certain": samples, "why": "f (a.py:1)",
                    "folded": "main (train.py:3);step (train.py:9)", **more,
                })  # fmt: skip
        return self

    def waits(self, role: str, processes: int, at: Callable[[float], dict[str, int]]) -> Seen:
        """Samples of `processes` of that role; `at` gives how many are in which class."""
        for second in range(self.length_s):
            counts = dict.fromkeys(WAIT_CLASSES, 0)
            for tenth in range(HZ):
                for name, number in at(second + (tenth + 0.5) / HZ).items():
                    counts[name] += number
            base = {
                **self._clock(second), "rank": self.rank, "role": role, "phase": "none",
                "loader": None, "passes": HZ, "processes": processes, "n_fault": 0,
                **{f"n_{name}": 0 for name in WAIT_CLASSES},
            }  # fmt: skip
            storage = counts.pop("storage")
            rows = [{**base, **{f"n_{name}": number for name, number in counts.items()}}]
            if storage:
                rows.append({
                    **base, "mount": "/scratch", "fstype": "nfs4", "wchan": "rpc_wait",
                    "path": "/scratch/data/a.tar", "n_storage": storage,
                })  # fmt: skip
            self.node.tables["waits"] += rows
            self.node.tables["process"].append({
                **self._clock(second), "pid": self.pid + (role == "worker"), "starttime": 1,
                "rank": self.rank, "role": role, "comm": "python", "majflt": 0, "syscr": 10,
                "cpu_ns": round(counts["cpu"] / HZ * NS), "rchar_bytes": 10**5,
                "read_bytes": 10**5, "blkio_delay_ns": None,
            })  # fmt: skip
        return self

    def _clock(self, second: int) -> dict[str, int]:
        end_ns = (1000 + second + 1) * NS
        return {"ts_ns": EPOCH_NS + end_ns, "mono_ns": end_ns, "interval_ns": NS}


def node(name: str = "n1") -> StandInNode:
    return StandInNode(name, {
        "schema": 1, "node": name, "start_ts_ns": EPOCH_NS, "end_ts_ns": EPOCH_NS + 2000 * NS,
        "clean_end": True, "ranks": [], "workers_seen": 2,
        "sources": {"waits": {"state": "on"}, "stacks": {"state": "on"}},
    })  # fmt: skip


def report_of(*nodes: StandInNode) -> dict[str, Any]:
    store = StandInStore(None, {one.node: one for one in nodes}, tuple(one.node for one in nodes))
    report = build_report(store, Thresholds())
    assert problems(report) == []
    text = render(report)
    assert text.startswith("slurm-io: ")
    return report


def waiting(share: float, state: str = "data_wait", step_s: float = 0.31) -> At:
    return lambda at: state if at % step_s < share * step_s else "compute"


def busy(name: str, processes: int = 2) -> Callable[[float], dict[str, int]]:
    """All of them, all the time: the loader cannot keep up."""
    return lambda _at: {name: processes}


def storage_job(share: float = 0.3, length_s: int = 300, **stacks: Any) -> StandInNode:
    one = node()
    seen = Seen(one, 0, 100, length_s).stacks(waiting(share), **stacks)
    seen.waits("rank", 1, lambda _at: {"pipe": 1}).waits("worker", 2, busy("storage"))
    return one


def test_slow_storage_is_named_and_said_to_be_seen_by_stacks() -> None:
    report = report_of(storage_job())
    assert report["verdict"] == "storage"
    assert "seen by stacks, no hook: 20 windows of 5 s" in report["verdict_reason"]
    assert "seen by stacks, no hook: 20 windows of 5 s" in report["idle"]["base"]
    storage = report["idle"]["storage"]
    assert storage["value"] == pytest.approx(0.3, abs=0.05)
    assert storage["low"] < 0.3 < storage["high"] and storage["high"] - storage["low"] > 0.05
    assert report["coverage"]["hook"] == "off"
    hook = [one for one in report["coverage"]["missing"] if one["source"] == "hook"]
    assert "no process reported a batch" in hook[0]["reason"]
    assert hook[0]["reason"].endswith("stacks stand for it")
    finding, small = report["findings"]
    assert small["rule"] == "F16", "reads of 10 KiB"
    assert (finding["rule"], finding["where"]["mounts"]) == ("F01", ["/scratch"])
    assert (finding["where"]["ranks"], finding["where"]["nodes"]) == ([0], ["n1"])
    assert finding["confidence"] == "proven", "waits and the latency of reads agree"
    assert report["time"]["training_s"] == pytest.approx(290, abs=10)


def test_one_witness_makes_it_likely_and_not_the_verdict() -> None:
    one = storage_job()
    one.tables["process"].clear()
    report = report_of(one)
    assert report["verdict"] == "not-proven"
    assert "only one witness agrees (waits)" in report["verdict_reason"]
    assert report["findings"][0]["confidence"] == "likely"


def test_a_wait_that_queued_gpu_work_may_have_hidden_is_at_most_likely() -> None:
    """Nobody measured how long the GPU had nothing to do: the lower end allows for it."""
    one = storage_job()
    for second in range(5):
        clock = {"ts_ns": EPOCH_NS + second, "mono_ns": second, "interval_ns": NS}
        one.tables["gpu"].append({**clock, "gpu": 0})
    report = report_of(one)
    assert (report["verdict"], report["findings"][0]["confidence"]) == ("storage", "likely")
    assert report["idle"]["storage"]["low"] == 0
    assert "gpu" in {each["source"] for each in report["coverage"]["missing"]}


def test_the_same_wait_with_workers_that_compute_is_preparation() -> None:
    one = node()
    seen = Seen(one, 0, 100, 300).stacks(waiting(0.3))
    seen.waits("rank", 1, lambda _at: {"pipe": 1}).waits("worker", 2, busy("cpu"))
    report = report_of(one)
    assert report["verdict"] == "cpu-prep"
    assert report["idle"]["storage"]["value"] == pytest.approx(0, abs=0.005)
    assert report["idle"]["data_cpu"] == pytest.approx(0.3, abs=0.05)


def test_a_sleeping_loader_has_no_cause() -> None:
    one = node()
    seen = Seen(one, 0, 100, 300).stacks(waiting(0.3))
    seen.waits("rank", 1, lambda _at: {"pipe": 1}).waits("worker", 2, busy("sleep"))
    report = report_of(one)
    assert report["verdict"] == "not-proven"
    assert "was not seen" in report["verdict_reason"]
    assert report["idle"]["storage"]["value"] == pytest.approx(0, abs=0.005)


def test_a_slow_collate_is_not_storage_though_its_workers_read_at_times() -> None:
    """Workers mostly have nothing to do; the rank collates in its own thread."""
    one = node()
    seen = Seen(one, 0, 100, 300).stacks(waiting(0.3), sub="collate")
    seen.waits("rank", 1, lambda _at: {"cpu": 1})
    seen.waits("worker", 2, lambda at: {"storage": 1, "pipe": 1} if at % 1 < 0.5 else {"pipe": 2})
    report = report_of(one)
    assert report["verdict"] == "cpu-prep"
    assert report["idle"]["storage"]["value"] == pytest.approx(0, abs=0.005)


def test_batches_handed_over_by_workers_that_read_ahead_are_no_stall() -> None:
    """A stock loader's 2 ms a batch in steps of 40 ms; workers read half of the time, in peace."""
    one = node()
    seen = Seen(one, 0, 100, 600).stacks(waiting(0.05))
    seen.waits("rank", 1, lambda _at: {"pipe": 1})
    seen.waits("worker", 2, lambda at: {"storage": 1, "pipe": 1})
    report = report_of(one)
    assert report["verdict"] != "storage"
    assert report["idle"]["storage"]["value"] == 0
    assert report["idle"]["data_pipeline"] == pytest.approx(0.05, abs=0.02)


def taking_over(worker: Callable[[float], dict[str, int]]) -> dict[str, Any]:
    """A third of the wait is taking batches over."""
    one = node()
    seen = Seen(one, 0, 100, 400).stacks(waiting(0.45))
    for row in [row for row in one.tables["stacks"] if row["state"] == "data_wait"][::3]:
        row["sub"] = "receiving"
    seen.waits("rank", 1, lambda _at: {"pipe": 1}).waits("worker", 2, worker)
    idle: dict[str, Any] = report_of(one)["idle"]
    return idle


def test_taking_batches_over_is_part_of_the_wait_for_workers_that_never_rest() -> None:
    """Were it shorter, the rank would wait longer. The lower bound is made without it."""
    idle = taking_over(busy("storage"))
    assert idle["data_storage"] == pytest.approx(0.45, abs=0.05)
    assert idle["storage"]["low"] < 0.3
    assert idle["data_pipeline"] < 0.02


def test_taking_batches_over_is_a_hand_over_where_workers_rest() -> None:
    idle = taking_over(lambda _at: {"storage": 1, "pipe": 1})
    assert idle["data_storage"] == pytest.approx(0.3, abs=0.05)
    assert idle["data_pipeline"] == pytest.approx(0.15, abs=0.05)


def test_a_loader_that_nobody_waits_for_is_healthy_when_its_processes_never_wait_for_storage() -> (
    None
):
    one = node()
    seen = Seen(one, 0, 100, 600).stacks(waiting(0.02))
    seen.waits("rank", 1, lambda _at: {"cpu": 1}).waits("worker", 2, lambda _at: {"pipe": 2})
    report = report_of(one)
    assert report["verdict"] == "healthy"
    assert report["idle"]["storage"]["value"] == 0
    assert report["idle"]["data_storage"] == 0


def test_few_windows_do_not_make_a_job_healthy_whose_workers_do_wait_for_storage() -> None:
    """A stall that no window hit: what was seen says little, and the report says so."""
    one = node()
    seen = Seen(one, 0, 100, 120).stacks(lambda _at: "compute")
    seen.waits("rank", 1, lambda _at: {"pipe": 1})
    seen.waits("worker", 2, lambda at: {"storage": 2} if 10 < at % 15 < 14 else {"pipe": 2})
    report = report_of(one)
    assert report["verdict"] == "not-proven"
    assert "the hook would tell" in report["verdict_reason"]


@pytest.mark.parametrize("sub", ["reading", "unknown", "transform"])
def test_a_rank_that_reads_by_itself_waits_for_storage(sub: str) -> None:
    """Its samples mix reads and training; a mapped file shows as a transform, or as nothing."""
    one = node()
    at = waiting(0.4)
    seen = Seen(one, 0, 100, 300).stacks(at, sub=sub)
    seen.waits("rank", 1, lambda when: {"storage": 1} if at(when) == "data_wait" else {"cpu": 1})
    report = report_of(one)
    assert report["verdict"] == "storage"
    assert report["idle"]["storage"]["value"] == pytest.approx(0.4, abs=0.06)


def test_a_rank_that_decodes_by_itself_does_not() -> None:
    one = node()
    seen = Seen(one, 0, 100, 300).stacks(waiting(0.4), sub="decoding")
    seen.waits("rank", 1, lambda _at: {"cpu": 1})
    report = report_of(one)
    assert report["verdict"] == "cpu-prep"
    assert report["idle"]["storage"]["value"] == 0


def test_a_rank_asleep_in_its_own_loader_has_no_cause() -> None:
    one = node()
    at = waiting(0.4)
    seen = Seen(one, 0, 100, 300).stacks(at, sub="unknown")
    seen.waits("rank", 1, lambda when: {"sleep": 1} if at(when) == "data_wait" else {"cpu": 1})
    assert report_of(one)["verdict"] == "not-proven"


def test_saves_that_block_are_checkpoints_and_not_reads() -> None:
    """The rank itself reads: its storage samples during saves are the saves'."""
    one = node()

    def at(when: float) -> str:
        return "ckpt" if when % 3.7 < 0.9 else "data_wait" if when % 0.31 < 0.01 else "compute"

    seen = Seen(one, 0, 100, 400).stacks(at, sub="reading")
    seen.waits("rank", 1, lambda when: {"storage": 1} if at(when) == "ckpt" else {"cpu": 1})
    report = report_of(one)
    assert report["verdict"] == "checkpoint"
    assert report["idle"]["checkpoint"] == pytest.approx(0.24, abs=0.05)
    assert report["idle"]["data_storage"] < 0.02
    assert [one["rule"] for one in report["findings"]] == ["F04"]


def test_start_up_is_no_training() -> None:
    """Imports, building the model, the wait for the very first batch."""
    one = node()

    def at(when: float) -> str:
        if when < 40:
            return "import" if when < 20 else "data_wait"
        return "compute"

    Seen(one, 0, 100, 600).stacks(at).waits("worker", 2, lambda _at: {"pipe": 2})
    report = report_of(one)
    assert report["idle"]["storage"]["value"] == 0
    assert report["time"]["training_s"] < 565
    assert report["coverage"]["stack_check"]["data_wait"]["share"] > 0.02, "seen, and not training"


def test_evaluation_is_no_training_where_its_function_says_so() -> None:
    one = node()

    def at(when: float) -> str:
        return "data_wait" if when % 60 < 20 else "compute"

    seen = Seen(one, 0, 100, 600)
    seen.stacks(at).waits("worker", 2, busy("storage"))
    for row in one.tables["stacks"]:
        if row["state"] == "data_wait":
            row["folded"] = "main (train.py:3);validate (train.py:40);__next__ (loader.py:7)"
    report = report_of(one)
    assert report["idle"]["storage"]["value"] == 0
    assert report["verdict"] != "storage"


def test_too_few_windows_are_said_to_be_too_few() -> None:
    report = report_of(storage_job(length_s=70))
    assert report["verdict"] == "not-proven"
    assert "5 windows" in report["verdict_reason"] and "6 are needed" in report["verdict_reason"]
    assert report["idle"]["storage"]["value"] is None
    assert report["findings"] == []


def test_stacks_that_show_nothing_known_do_not_stand_for_a_hook() -> None:
    one = node()
    seen = Seen(one, 0, 100, 300).stacks(lambda at: "other" if at % 1 < 0.5 else waiting(0.3)(at))
    seen.waits("worker", 2, busy("storage"))
    report = report_of(one)
    assert report["verdict"] == "not-proven"
    assert "nothing known" in report["verdict_reason"] and "watch(" in report["verdict_reason"]


def test_without_stacks_it_is_as_it_was_and_says_what_to_do() -> None:
    one = node()
    Seen(one, 0, 100, 300).waits("worker", 2, busy("storage"))
    report = report_of(one)
    assert report["verdict"] == "not-proven"
    hook = [each for each in report["coverage"]["missing"] if each["source"] == "hook"]
    assert "profile=full" in hook[0]["reason"]


def test_without_wait_samples_the_cause_is_not_known() -> None:
    one = node()
    Seen(one, 0, 100, 300).stacks(waiting(0.3))
    report = report_of(one)
    assert report["verdict"] == "not-proven"
    assert report["idle"]["data_unknown"] == pytest.approx(0.3, abs=0.05)


def two_ranks(collective: bool, numbered_by: str | None = None) -> StandInNode:
    """One of two ranks waits 40 % of the time."""
    one = node()
    slow, fast = Seen(one, 0, 100, 400), Seen(one, 1, 200, 400)
    for rank in one.meta["ranks"]:
        rank |= {"numbered_by": numbered_by, "world_size": 2 if numbered_by else None}
    slow.stacks(waiting(0.4), every_s=20).waits("worker", 2, busy("storage"))
    others = waiting(0.4, "collective") if collective else waiting(0)
    fast.stacks(others, every_s=20, first_s=10)
    if collective:
        slow.node.tables["stacks"] += [
            {**row, "samples": 1, "state": "collective", "sub": None}
            for row in slow.node.tables["stacks"] if row["pid"] == 100 and row["state"] == "compute"
        ]  # fmt: skip
    fast.waits("worker", 2, lambda _at: {"pipe": 2})
    return one


@pytest.mark.parametrize(("collective", "numbered_by"), [(True, None), (False, "launcher")])
def test_ranks_in_step_lose_what_the_slow_one_waits_for(
    collective: bool, numbered_by: str | None
) -> None:
    """Shown by collectives, or because torchrun started them: then the backward pass hides them."""
    report = report_of(two_ranks(collective, numbered_by))
    assert report["verdict"] == "storage"
    assert report["idle"]["storage"]["value"] == pytest.approx(0.4, abs=0.06)
    assert report["findings"][0]["where"]["ranks"] == [0]


@pytest.mark.parametrize("known", [0, 1])
def test_a_rank_that_never_asks_trains_while_it_meets_one_that_does(known: int) -> None:
    """Its batches are always there, and of its step `known` looks show a frame of a library."""
    one = two_ranks(collective=True)
    steps = [r for r in one.tables["stacks"] if r["pid"] == 200 and r["state"] == "compute"]
    for row in steps[known:]:
        row["certain"] = 0
    report = report_of(one)
    assert report["verdict"] == "storage"
    assert report["idle"]["storage"]["value"] == pytest.approx(0.4, abs=0.06)
    assert report["findings"][0]["where"]["ranks"] == [0]
    assert report["coverage"]["stack_check"]["ranks"] == 2


def test_ranks_that_may_be_on_their_own_lose_the_mean_and_perhaps_more() -> None:
    report = report_of(two_ranks(collective=False))
    storage = report["idle"]["storage"]
    assert report["verdict"] == "storage"
    assert storage["value"] == pytest.approx(0.2, abs=0.04)
    assert storage["high"] >= 0.4
    assert report["findings"][0]["where"]["ranks"] == []


def test_two_processes_of_one_number_do_not_lend_each_other_a_cause() -> None:
    one = node()
    for pid, name in ((100, "storage"), (200, "cpu")):
        seen = Seen(one, None, pid, 300).stacks(waiting(0.3))
        seen.waits("worker", 2, busy(name))
    report = report_of(one)
    assert report["verdict"] == "not-proven"
    assert report["idle"]["storage"]["value"] == 0


def test_beside_hooked_ranks_those_without_a_hook_are_told_of_and_not_mixed_in() -> None:
    hooked = train(one_rank(), 600, 0.19, lambda k: (0.01, "storage"))
    store = HookedJob([hooked]).store()
    alone = build_report(store, Thresholds())
    Seen(store.nodes["n1"], 7, 4000, 300).stacks(waiting(0.3)).waits("worker", 2, busy("storage"))
    report = build_report(store, Thresholds())
    assert problems(report) == []
    assert report["idle"] == alone["idle"]
    assert report["coverage"]["hook"] == "partial"
    (hook,) = (one for one in report["coverage"]["missing"] if one["source"] == "hook")
    assert hook["reason"].startswith("rank 7 had none and is in none of the shares")
