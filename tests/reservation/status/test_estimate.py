"""Time to swap by phase: measured where there is history, else stated with its base."""

from __future__ import annotations

import pytest

from slurm_io.config import SparesConfig
from slurm_io.reservation.history import DONE, PHASES, HistoryRecord
from slurm_io.reservation.model import DataSays
from slurm_io.reservation.status.before import before
from slurm_io.reservation.status.estimate import Settings, estimate
from slurm_io.reservation.status.model import Estimate, JobOn, Phase
from slurm_io.slurm.infos import ConfigFacts

FACTS = ConfigFacts("lab", (22, 5, 8), cred_expire_s=120, slurmd_timeout_s=300, kill_wait_s=30)
SETTINGS = Settings(FACTS, SparesConfig())
FILLER = JobOn("8", "ada", "filler", 600.0, True)
FOREIGN = JobOn("9", "eve", "foreign", None, None)


def by_name(found: Estimate) -> dict[str, Phase]:
    return {phase.name: phase for phase in found.phases}


def swap(at_s: float = 1.0, kind: str = "swap", outcome: str = DONE, **phases: float):  # type: ignore[no-untyped-def]
    return HistoryRecord(kind, at_s, "n2", "n4", "7", phases, outcome)  # type: ignore[arg-type]


def test_without_history_slurm_s_settings_and_published_figures_count() -> None:
    found = estimate(SETTINGS, (), ())
    phases = by_name(found)
    assert tuple(phases) == PHASES
    assert (phases["detect"].low_s, phases["detect"].high_s) == (100, 300)
    assert phases["detect"].base == "SlurmdTimeout is 5 min"
    assert phases["requeue"].high_s == 121
    assert "not measured here" in phases["init"].base
    assert not any(phase.measured for phase in found.phases)
    assert found.low_s is not None and found.high_s is not None
    assert 4 * 60 < found.high_s < 16 * 60


def test_all_sums_are_those_of_the_phases() -> None:
    found = estimate(SETTINGS, (), (FILLER,))
    for name in ("low_s", "usual_s", "high_s"):
        parts = [getattr(phase, name) for phase in found.phases]
        assert getattr(found, name) == pytest.approx(sum(parts))


def test_measured_phases_win() -> None:
    history = [swap(init=70.0), swap(init=90.0), swap(kind="drill", init=20.0)]
    phase = by_name(estimate(SETTINGS, history, ()))["init"]
    assert (phase.low_s, phase.usual_s, phase.high_s) == (20, 70, 90)
    assert phase.measured
    assert phase.base == "measured in 2 swaps and 1 drill"


def test_a_drill_tells_nothing_of_detection() -> None:
    phase = by_name(estimate(SETTINGS, [swap(kind="drill", detect=0.1)], ()))["detect"]
    assert not phase.measured
    assert by_name(estimate(SETTINGS, [swap(detect=80.0)], ()))["detect"].usual_s == 80


def test_a_first_step_counted_from_the_job_s_start_has_the_rest_in_it() -> None:
    """Else starting and loading would be counted twice."""
    phases = by_name(estimate(SETTINGS, [swap(first_step=200.0)], ()))
    assert phases["first_step"].usual_s == 200
    assert (phases["init"].high_s, phases["load"].high_s) == (0, 0)
    assert "part of the first step" in phases["init"].base
    mixed = [swap(first_step=200.0), swap(init=90.0, load=40.0, first_step=3.0)]
    phases = by_name(estimate(SETTINGS, mixed, ()))
    assert (phases["first_step"].usual_s, phases["init"].usual_s) == (3, 90)
    assert by_name(estimate(SETTINGS, [swap(detect=80.0)], ()))["init"].high_s == 180


def test_failed_swaps_and_old_ones_tell_nothing() -> None:
    failed = swap(init=5.0, outcome="rolled back: no first step")
    assert not by_name(estimate(SETTINGS, [failed], ()))["init"].measured
    many = [swap(init=999.0), *(swap(init=60.0) for _ in range(20))]
    assert by_name(estimate(SETTINGS, many, ()))["init"].high_s == 60


def test_clearing_depends_on_what_runs_there() -> None:
    clear = by_name(estimate(SETTINGS, (), ()))["clear"]
    assert (clear.high_s, clear.base) == (0, "nothing runs there")
    clear = by_name(estimate(SETTINGS, (), (FILLER,)))["clear"]
    assert (clear.high_s, clear.base) == (60, "KillWait is 30 s, and an epilog")
    found = estimate(SETTINGS, (), (FILLER, FOREIGN))
    assert by_name(found)["clear"].base == "job 9 does not give way"
    assert found.low_s is found.usual_s is found.high_s is None


def test_a_spare_that_was_clear_tells_nothing_of_clearing() -> None:
    history = [swap(clear=0.1), swap(clear=40.0)]
    assert by_name(estimate(SETTINGS, history, (FILLER,)))["clear"].low_s == 40


def test_without_slurm_s_configuration_it_says_so() -> None:
    phases = by_name(estimate(Settings(None, SparesConfig()), (), (FILLER,)))
    assert "SlurmdTimeout unknown" in phases["detect"].base
    assert "KillWait unknown" in phases["clear"].base
    assert "delay unknown" in phases["requeue"].base


def test_who_decides_is_said() -> None:
    assert "a person decides" in estimate(SETTINGS, (), ()).note
    assert estimate(Settings(FACTS, SparesConfig(policy="auto")), (), ()).note == ""


def data(bytes_behind: int | None, **values: object) -> DataSays:
    usual = {"content_id": "c1-x", "state": "ready", "level": 4, "age_s": 1.0}
    rest = {"bytes_behind": bytes_behind, "files_behind": 1, "total_bytes": 8_000}
    return DataSays(**{**usual, **rest, **values})  # type: ignore[arg-type]


def test_what_must_be_staged_first_comes_first() -> None:
    first = before("syncing", "", data(4_000), True, 100.0)
    assert first is not None
    assert (first.name, first.low_s, first.high_s) == ("stage", 40, 80)
    found = estimate(SETTINGS, (), (), first)
    assert found.phases[0] is first


def test_another_version_may_have_to_come_whole() -> None:
    first = before("stale", "", data(0), False, 100.0)
    assert first is not None
    assert (first.low_s, first.high_s) == (0, 80)
    assert "another version" in first.base


@pytest.mark.parametrize("lacking", [data(None), None])
def test_unknown_is_no_time(lacking: DataSays | None) -> None:
    first = before("stale", "", lacking, None, 100.0)
    assert first is not None
    assert first.low_s is None
    unhealthy = before("unhealthy", "md0 lost sdb", data(0), True, 100.0)
    assert unhealthy is not None
    assert (unhealthy.name, unhealthy.high_s, unhealthy.base) == ("mend", None, "md0 lost sdb")


def test_without_a_rate_there_is_no_time() -> None:
    first = before("stale", "", data(4_000), True, None)
    assert first is not None
    assert first.high_s is None


@pytest.mark.parametrize("state", ["ready", "busy"])
def test_nothing_comes_before_a_ready_one(state: str) -> None:
    assert before(state, "", data(0), True, None) is None  # type: ignore[arg-type]
