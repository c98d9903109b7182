"""How the sampler treats a source that is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_io.collectors.base import Availability, Context, Row, Tick
from slurm_io.sampler import collecting
from slurm_io.sampler.collecting import CollectorRunner, Metered, Usage
from tests.collectors.fake_host import context

SECOND_NS = 1_000_000_000


class Source:
    """A collector whose source comes at some opening."""

    name = "source"
    table = "fsclient"
    period_s = 1.0

    def __init__(self, *states: Any) -> None:
        self.states = list(states)
        self.opened = 0

    def open(self, context: Context) -> Availability:
        self.opened += 1
        return Availability(self.states[min(self.opened, len(self.states)) - 1], "why")

    def collect(self, tick: Tick) -> list[Row]:
        return [("row", tick.mono_ns)]

    def facts(self) -> dict[str, object]:
        return {"fact": 1}

    def close(self) -> None:
        pass


def run(source: Source, seconds: int) -> dict[int, list[Row]]:
    """Rows by second; a second without is left out."""
    runner = CollectorRunner(source)
    runner.open(context(Path("/nowhere")))
    rows = {second: runner.rows(0, second * SECOND_NS, 0) for second in range(seconds)}
    return {second: found for second, found in rows.items() if found}


@pytest.mark.parametrize(("state", "opened"), [("absent", 4), ("off", 1)])
def test_what_is_absent_is_looked_for_again_what_is_off_is_not(state: str, opened: int) -> None:
    source = Source(state)
    assert run(source, 100) == {}
    assert source.opened == opened


def test_a_source_that_comes_later_gives_rows_from_then_on() -> None:
    source = Source("absent", "absent", "on")
    assert run(source, 64).keys() == set(range(60, 64))
    assert source.opened == 3


def test_what_is_absent_has_no_facts_but_its_reason() -> None:
    runner = CollectorRunner(Source("absent"))
    runner.open(context(Path("/nowhere")))
    assert runner.facts() == {"state": "absent", "reason": "why"}


def test_a_failure_while_looking_again_is_off_with_its_reason() -> None:
    class Breaks(Source):
        def open(self, context: Context) -> Availability:
            if self.opened:
                raise OSError("broken")
            return super().open(context)

    runner = CollectorRunner(Breaks("absent"))
    runner.open(context(Path("/nowhere")))
    for second in range(40):
        assert runner.rows(0, second * SECOND_NS, 0) == []
    assert runner.availability == Availability("off", "OSError: broken")


class WithHelper(Source):
    """One whose helper has used some CPU time that nobody has waited for."""

    helper_cpu_s = 0.0


def test_a_living_helper_counts_by_its_own_word() -> None:
    source = WithHelper("on")
    runner = CollectorRunner(source)
    runner.open(context(Path("/nowhere")))
    for second, used_s in enumerate((0.0, 0.5, 40.0)):
        source.helper_cpu_s = used_s
        runner.rows(0, second * SECOND_NS, 0)
        assert runner.usage.all_children_cpu_s == used_s
        assert runner.usage.to_dict()["cpu_s"] >= used_s
    source.helper_cpu_s = 0.0  # it ended; what it used comes in when it is waited for
    runner.close()
    assert runner.usage.helper_cpu_s == 0.0


def test_a_helper_of_days_is_not_taken_for_somebody_elses_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used = iter((0.0, 500.0, 500.0, 5000.0))
    monkeypatch.setattr(collecting, "children_cpu_s", lambda: next(used))
    usage = Usage(helper_cpu_s=499.0)
    with Metered(usage, has_children=True):
        pass
    assert usage.children_cpu_s == 500.0
    usage.helper_cpu_s = 0.0
    with Metered(usage, has_children=True):  # that one was nobody we know
        pass
    assert usage.children_cpu_s == 500.0


def test_a_source_that_is_slowed_down_is_collected_each_so_many_periods() -> None:
    runner = CollectorRunner(Source("on"))
    runner.open(context(Path("/nowhere")))
    runner.slow_down(5)
    with_rows = [s for s in range(20) if runner.rows(0, s * SECOND_NS, 0)]
    assert with_rows == [0, 5, 10, 15]


def test_a_source_that_slows_itself_is_told_and_still_called() -> None:
    class SlowsItself(Source):
        factor = 1

        def slow_down(self, factor: int) -> None:
            self.factor = factor

    source = SlowsItself("on")
    runner = CollectorRunner(source)
    runner.open(context(Path("/nowhere")))
    runner.slow_down(5)
    assert source.factor == 5
    assert all(runner.rows(0, second * SECOND_NS, 0) for second in range(5))


def test_what_is_absent_is_looked_for_less_often_when_slowed_down() -> None:
    source = Source("absent")
    runner = CollectorRunner(source)
    runner.open(context(Path("/nowhere")))
    runner.slow_down(2)
    for second in range(130):
        runner.rows(0, second * SECOND_NS, 0)
    assert source.opened == 3
