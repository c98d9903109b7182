"""When a sampler ends by itself."""

from __future__ import annotations

import os
from dataclasses import replace

from slurm_io.model import JobIdentity, Mode, SamplerSpec
from slurm_io.sampler.lifetime import JobState, Lifetime, state_in


def spec(mode: Mode, **fields: float) -> SamplerSpec:
    job = JobIdentity("c", "7", 0, "u", 1000)
    return SamplerSpec(job=job, node="n", mode=mode, spool="/s", ring_dir="/r", **fields)  # type: ignore[arg-type]


class Slurm:
    """Answers as told and counts how often it was asked."""

    def __init__(self, state: JobState) -> None:
        self.state = state
        self.asked = 0

    def ask(self) -> JobState:
        self.asked += 1
        return self.state


def lifetime(mode: Mode, slurm: Slurm | None = None, **fields: float) -> Lifetime:
    return Lifetime(spec(mode, **fields), 0.0, (slurm or Slurm("unknown")).ask, lambda: 0.5)


def ends(life: Lifetime, until_s: int, processes: int = 0, start_s: int = 1) -> tuple[int, str]:
    for second in range(start_s, until_s):
        reason = life.end_reason(float(second), processes)
        if reason:
            return second, reason
    return until_s, ""


def test_user_mode_ends_when_nothing_is_left_twice_in_a_row() -> None:
    life = lifetime("user")
    assert ends(life, 100, processes=3) == (100, "")
    assert life.end_reason(100.0, 0) is None
    assert life.end_reason(101.0, 0) == "job ended"


def test_slurm_mode_asks_only_after_the_idle_time_and_rarely() -> None:
    slurm = Slurm("alive")
    life = lifetime("slurm", slurm, idle_exit_s=300.0)
    assert ends(life, 299) == (299, "")
    assert slurm.asked == 0
    assert ends(life, 4000, start_s=299) == (4000, "")
    assert 5 <= slurm.asked <= 12


def test_slurm_mode_ends_when_slurm_says_so() -> None:
    second, reason = ends(lifetime("slurm", Slurm("over"), idle_exit_s=300.0), 1000)
    assert (reason, 300 <= second <= 360) == ("job ended", True)


def test_slurm_mode_without_an_answer_waits_twelve_times_as_long() -> None:
    second, reason = ends(lifetime("slurm", Slurm("unknown"), idle_exit_s=10.0), 1000)
    assert (reason, 120 <= second <= 150) == ("no process of the job", True)


def test_a_process_seen_again_starts_the_clock_anew() -> None:
    slurm = Slurm("over")
    life = lifetime("slurm", slurm, idle_exit_s=10.0)
    ends(life, 10)
    assert life.end_reason(11.0, 1) is None
    assert ends(life, 21, start_s=12) == (21, "")
    assert slurm.asked == 0


def test_there_is_a_longest_life() -> None:
    life = lifetime("slurm", Slurm("alive"), max_lifetime_s=50.0)
    assert ends(life, 100, processes=9) == (50, "longest lifetime")


def test_states_of_scontrol() -> None:
    line = "JobId=7 JobName=x Requeue=1 Restarts=0 JobState={} Reason=None\n"
    assert state_in(line.format("RUNNING"), "", 0) == "alive"
    assert state_in(line.format("COMPLETING"), "", 0) == "alive"
    assert state_in(line.format("COMPLETED"), "", 0) == "over"
    assert state_in("", "slurm_load_jobs error: Invalid job id specified\n", 0) == "over"
    assert (
        state_in("", "slurm_load_jobs error: Unable to contact slurm controller\n", 0) == "unknown"
    )
    assert state_in(line.format("RUNNING"), "", 1) == "over", "it runs again, elsewhere"


def test_a_sampler_ends_with_the_process_that_attached_it() -> None:
    alive = Lifetime(
        replace(spec("user"), attached_by=os.getppid()), 0.0, lambda: "unknown", lambda: 0.5
    )
    assert ends(alive, 50, processes=3) == (50, "")
    orphan = Lifetime(
        replace(spec("user"), attached_by=os.getpid()), 0.0, lambda: "unknown", lambda: 0.5
    )
    assert ends(orphan, 50, processes=3) == (1, "who attached is gone")
