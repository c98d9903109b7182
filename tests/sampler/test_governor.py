"""The governor against a made-up machine: cost per pass, per process table, per discovery."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest

from slurm_io.sampler.governor import CREDIT_S, Governor
from slurm_io.sampler.paces import DISCOVERY, FACTS, RINGS, WAITS, Pace

PROCESS, GPU, NFS = "process", "gpu", "nfs"


@dataclass
class Machine:
    """CPU seconds each source costs a run."""

    pass_s: float = 0.0
    process_s: float = 0.0
    discovery_s: float = 0.0
    gpu_s: float = 0.0
    nfs_s: float = 0.0
    rings_s: float = 0.0
    facts_s: float = 0.0
    other_s: float = 0.0

    def cost_s(self, pace: Pace) -> float:
        """CPU seconds of one second at this pace."""
        return (
            self.pass_s * pace.waits_hz
            + self.process_s / pace.factor(PROCESS)
            + self.discovery_s / pace.discovery_period_s
            + self.gpu_s / pace.factor(GPU)
            + self.nfs_s / pace.factor(NFS)
            + self.rings_s / pace.factor(RINGS)
            + self.facts_s / pace.factor(FACTS)
            + self.other_s
        )

    def by_source(self, pace: Pace) -> dict[str, float]:
        """The same by source."""
        return {
            WAITS: self.pass_s * pace.waits_hz,
            PROCESS: self.process_s / pace.factor(PROCESS),
            DISCOVERY: self.discovery_s / pace.discovery_period_s,
            GPU: self.gpu_s / pace.factor(GPU),
            NFS: self.nfs_s / pace.factor(NFS),
            RINGS: self.rings_s / pace.factor(RINGS),
            FACTS: self.facts_s / pace.factor(FACTS),
        }


def run(machine: Machine, seconds: int, governor: Governor, start_s: int = 0) -> list[float]:
    """Share of one core in each second."""
    shares, cpu_s = [], 1000.0
    by_source = dict.fromkeys((WAITS, PROCESS, DISCOVERY, GPU, NFS, RINGS, FACTS), 100.0)
    for second in range(start_s, start_s + seconds):
        cost_s = machine.cost_s(governor.pace)
        shares.append(cost_s)
        cpu_s += cost_s
        for name, own_s in machine.by_source(governor.pace).items():
            by_source[name] += own_s
        governor.update(float(second), cpu_s, by_source)
    return shares


def test_a_cheap_job_is_sampled_at_full_rate() -> None:
    governor = Governor(0.003, 10.0)
    run(Machine(pass_s=0.0001, other_s=0.001), 120, governor)
    assert governor.pace == Pace(10.0)
    assert governor.to_dict()["changes"] == []


@pytest.mark.parametrize("asked_hz", [50.0, 20.0, 10.0, 4.0, 0.5])
def test_the_rate_asked_for_is_the_upper_bound(asked_hz: float) -> None:
    governor = Governor(0.003, asked_hz)
    assert governor.pace.waits_hz == min(20.0, asked_hz)
    run(Machine(pass_s=0.0001 / asked_hz), 120, governor)
    assert governor.pace.waits_hz == min(20.0, asked_hz)


@pytest.mark.parametrize("asked_hz", [20.0, 4.0])
def test_the_first_step_down_is_a_real_one(asked_hz: float) -> None:
    governor = Governor(0.003, asked_hz)
    run(Machine(pass_s=0.02 / asked_hz), 60, governor)
    first = governor.to_dict()["changes"][0]
    assert first["to"] < asked_hz


def test_dear_waits_are_slowed_until_the_budget_holds() -> None:
    governor = Governor(0.003, 10.0)
    shares = run(Machine(pass_s=0.0007, process_s=0.0004), 300, governor)
    assert governor.pace.waits_hz in (2.0, 3.0)
    assert governor.pace.factor(PROCESS) == 1
    assert sum(shares[-20:]) / 20 <= 0.003


def test_dear_discovery_is_slowed_and_the_waits_stay_fast() -> None:
    governor = Governor(0.003, 10.0)
    shares = run(Machine(pass_s=0.0001, discovery_s=0.004), 300, governor)
    assert governor.pace.waits_hz == 10.0
    assert governor.pace.discovery_period_s > 1
    assert sum(shares[-20:]) / 20 <= 0.003


def test_a_short_job_is_sampled_at_full_rate_on_credit() -> None:
    governor = Governor(0.003, 10.0)
    over_s = 0.002  # a second
    run(Machine(pass_s=0.0005), int(CREDIT_S / over_s), governor)
    assert governor.pace.waits_hz == 10.0


def test_over_a_long_job_the_budget_holds_with_the_credit_included() -> None:
    governor = Governor(0.003, 10.0)
    shares = run(Machine(pass_s=0.0007, process_s=0.003), 3600, governor)
    assert sum(shares) <= 0.003 * 3600 + 2 * CREDIT_S


def test_the_process_table_is_slowed_when_it_is_the_dearest() -> None:
    governor = Governor(0.003, 10.0)
    shares = run(Machine(pass_s=0.0005, process_s=0.006), 300, governor)
    assert governor.pace.factor(PROCESS) > 1
    assert sum(shares[-20:]) / 20 <= 0.003


def test_a_dear_gpu_driver_is_asked_less_often_and_the_waits_stay_fast() -> None:
    governor = Governor(0.003, 10.0)
    shares = run(Machine(pass_s=0.0001, gpu_s=0.009), 300, governor)
    assert governor.pace.waits_hz == 10.0
    assert governor.pace.factor(GPU) in (5, 10)
    assert sum(shares[-20:]) / 20 <= 0.003


def test_a_source_that_costs_nothing_is_never_slowed() -> None:
    governor = Governor(0.003, 10.0)
    run(Machine(pass_s=0.02), 600, governor)
    assert (governor.pace.factors, governor.pace.discovery_period_s) == ({}, 1.0)


@pytest.mark.parametrize(("pass_s", "floor_hz"), [(0.0012, 2.0), (0.002, 1.0), (0.009, 0.25)])
def test_waits_go_below_two_hertz_when_they_alone_are_over_the_budget(
    pass_s: float, floor_hz: float
) -> None:
    governor = Governor(0.003, 10.0)
    shares = run(Machine(pass_s=pass_s), 300, governor)
    assert governor.pace.waits_hz == floor_hz
    assert sum(shares[-20:]) / 20 <= 0.003


def test_waits_go_below_two_hertz_only_after_all_others_have_slowed_down() -> None:
    governor = Governor(0.003, 10.0)
    run(Machine(pass_s=0.002, process_s=0.003, discovery_s=0.002), 300, governor)
    assert governor.pace.waits_hz == 1.0
    assert governor.pace.discovery_period_s >= 8.0
    assert governor.pace.factor(PROCESS) >= 10


def test_waits_keep_a_third_of_the_budget_when_what_cannot_be_slowed_takes_it_all() -> None:
    governor = Governor(0.003, 10.0)
    run(Machine(pass_s=0.0008, other_s=0.02), 300, governor)
    assert governor.pace.waits_hz == 1.0


def test_any_collector_is_slowed_when_it_is_the_dearest() -> None:
    governor = Governor(0.003, 10.0)
    shares = run(Machine(pass_s=0.00005, process_s=0.0005, nfs_s=0.008), 300, governor)
    assert governor.pace.factor(NFS) in (5, 10)
    assert governor.pace.waits_hz == 10.0
    assert governor.to_dict()["paces"] == {NFS: governor.pace.factor(NFS)}
    assert sum(shares[-20:]) / 20 <= 0.003


def test_one_look_at_the_costs_slows_down_as_far_as_they_say() -> None:
    governor = Governor(0.003, 20.0)
    shares = run(Machine(pass_s=0.0006, process_s=0.001, discovery_s=0.001), 120, governor)
    moments = {change["mono_s"] for change in governor.to_dict()["changes"]}
    assert len(moments) <= 2
    assert sum(shares[-60:]) / 60 <= 0.003


def test_ranks_that_compute_are_looked_at_less_often_only_once_the_waits_are_slowed() -> None:
    assert Governor(0.003, 2.0).pace.hold_s == 0
    governor = Governor(0.003, 10.0)
    assert governor.pace.hold_s == 0
    run(Machine(pass_s=0.001), 120, governor)
    assert governor.pace.hold_s > 0


def test_when_the_load_goes_the_full_rate_comes_back() -> None:
    governor = Governor(0.003, 10.0)
    run(Machine(pass_s=0.002), 120, governor)
    assert governor.pace.waits_hz < 10
    run(Machine(pass_s=0.00002), 900, governor, start_s=120)
    assert governor.pace == Pace(10.0)


def test_room_below_the_budget_is_used() -> None:
    """Slowed by what it expected, it finds that less was needed."""
    governor = Governor(0.003, 20.0)
    machine = Machine(pass_s=0.0009, process_s=0.001, discovery_s=0.001, other_s=0.001)
    run(machine, 120, governor)
    machine.pass_s = 0.0003
    shares = run(machine, 1200, governor, start_s=120)
    assert 0.0018 <= sum(shares[-60:]) / 60 <= 0.003


def test_it_does_not_swing_for_ever_between_two_paces() -> None:
    governor = Governor(0.003, 10.0)
    # Half the budget at 5 Hz, over it at 10 Hz for another reason: every attempt fails.
    fast, slow = Machine(other_s=0.004), Machine(other_s=0.001)
    cpu_s, waits_s, changes = 0.0, 0.0, []
    for second in range(4000):
        machine = fast if governor.pace.waits_hz == 10 else slow
        cpu_s += machine.cost_s(governor.pace)
        waits_s += 0.0001
        if governor.update(float(second), cpu_s, {WAITS: waits_s}):
            changes.append(second)
    assert len(changes) < 25
    late = [second for second in changes if second > 2000]
    assert len(late) < 10


def test_a_source_that_is_asked_more_seldom_than_the_window_is_long_is_not_thought_free() -> None:
    """Each 10 s a run of 50 ms, slowed to one each 100 s: most windows of 20 s hold none."""
    governor = Governor(0.003, 10.0)
    cpu_s, log_s, paces = 0.0, 0.0, []
    for second in range(1000):
        ran = second % (10 * governor.pace.factor("log")) == 0
        log_s += 0.050 * ran
        cpu_s += 0.050 * ran + 0.0023
        governor.update(float(second), cpu_s, {WAITS: 0.0, "log": log_s})
        paces.append(governor.pace.factor("log"))
    settled = paces[400:]
    assert all(pace > 1 for pace in settled)
    assert sum(was != now for was, now in pairwise(settled)) <= 1


def test_the_start_is_not_held_against_it() -> None:
    governor = Governor(0.003, 10.0)
    cpu_s = 0.0
    for second in range(60):
        cpu_s += 0.2 if second < 3 else 0.001
        governor.update(float(second), cpu_s, {})
    assert governor.to_dict()["changes"] == []


def test_changes_are_on_record() -> None:
    governor = Governor(0.003, 10.0)
    run(Machine(pass_s=0.0009), 90, governor)
    said = governor.to_dict()
    assert said["budget_share"] == 0.003
    assert said["level"] > 0
    first = said["changes"][0]
    assert (first["source"], first["from"], first["to"]) == ("waits", 10.0, 3.0)
    assert first["share"] > 0.003


NODES = {
    32: Machine(0.0025, 0.0045, 0.0035, rings_s=0.0008, facts_s=0.0001, other_s=0.0008),
    80: Machine(0.0060, 0.0110, 0.0070, rings_s=0.0018, facts_s=0.0002, other_s=0.0012),
}


@pytest.mark.parametrize("ranks", NODES)
def test_the_budget_holds_after_a_minute_whatever_the_size_of_the_node(ranks: int) -> None:
    governor = Governor(0.003, 20.0)
    shares = run(NODES[ranks], 180, governor)
    assert max(sum(shares[n : n + 20]) / 20 for n in range(60, 160)) <= 0.003
    said = governor.to_dict()
    assert (said["out_of_reach"], said["out_of_reach_s"]) == (False, 0.0)
    assert said["share"] <= 0.003
    assert {WAITS, PROCESS, DISCOVERY} <= said["paces"].keys()


def test_far_above_the_budget_it_does_not_wait_for_more_evidence() -> None:
    governor = Governor(0.003, 20.0)
    shares = run(NODES[80], 60, governor)
    settling, showing = sum(shares[:3]), 3 * shares[0]
    assert settling + showing > sum(shares[3:12])


def test_waits_go_as_low_as_it_takes_where_the_others_leave_room() -> None:
    governor = Governor(0.003, 20.0)
    shares = run(Machine(pass_s=0.006, other_s=0.0026), 300, governor)
    assert governor.pace.waits_hz == 0.0625
    assert sum(shares[-20:]) / 20 <= 0.003


def test_below_a_pass_a_second_passes_look_at_parts_of_the_ranks() -> None:
    governor = Governor(0.003, 20.0)
    run(Machine(pass_s=0.006, other_s=0.0026), 300, governor)
    pace = governor.pace
    assert (pace.turns, pace.passes_hz, pace.waits_hz) == (16, 1.0, 0.0625)
    assert Governor(0.003, 0.25).pace.turns == 1  # as was asked for


def test_a_budget_out_of_reach_is_told_with_what_it_costs_instead() -> None:
    governor = Governor(0.003, 10.0)
    assert governor.to_dict()["share"] is None
    run(Machine(pass_s=0.0009, other_s=0.004), 200, governor)
    said = governor.to_dict()
    assert said["out_of_reach"] is True
    assert 150 <= said["out_of_reach_s"] <= 190
    assert said["share"] == pytest.approx(0.0049, abs=0.0002)
    run(Machine(pass_s=0.0001), 60, governor, start_s=200)
    said = governor.to_dict()
    assert said["out_of_reach"] is False
    assert said["out_of_reach_s"] < 210  # what was is not forgotten


def test_a_small_node_goes_no_further_than_it_must() -> None:
    """What costs far too much at full rate is not slowed to the end at the first look."""
    governor = Governor(0.003, 20.0)
    shares = run(Machine(0.00066, 0.0011, 0.002, rings_s=0.0003, other_s=0.0009), 120, governor)
    changes = governor.to_dict()["changes"]
    lowest = min(change["to"] for change in changes if change["source"] == WAITS)
    slowest = {change["source"]: change["to"] for change in changes if change["source"] != WAITS}
    assert 0.5 <= lowest <= 2.0
    assert slowest.keys() == {PROCESS, DISCOVERY}
    assert slowest[PROCESS] <= 10 and slowest[DISCOVERY] <= 8.0
    assert sum(shares[-20:]) / 20 <= 0.003
