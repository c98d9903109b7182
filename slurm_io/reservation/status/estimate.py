"""How long a swap to one spare would take, phase by phase.

Where this reservation's swaps and drills have measured a phase, their numbers count: the middle one
and the extremes of the last 20. Else what Slurm's and the site's settings say, else published
figures; each phase says which. A drill waits for no failure, so it tells nothing of `detect`.
Where the job's program does not tell when it has initialised, `first_step` is measured from the
job's start and has `init` and `load` in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from slurm_io.config import SparesConfig
from slurm_io.reservation.history import DONE, PHASES, HistoryRecord
from slurm_io.reservation.status.model import Estimate, JobOn, Phase
from slurm_io.reservation.status.words import age
from slurm_io.slurm.infos import ConfigFacts

_LAST = 20
_PUBLISHED = "usual figure, not measured here"
_USUAL_S = {"prolog": (2, 20), "init": (60, 180), "load": (30, 120), "first_step": (1, 60)}
_WITHIN = ("init", "load")
_DECIDING_S = 10.0
_RESERVATION_S = (0.2, 2.0)
_EPILOG_S = 30.0
_USUAL_TIMEOUT_S = 300.0
_USUAL_KILL_WAIT_S = 30.0
_START_NOW_S = 5.0  # a requeued job's delay can be taken away but for this


@dataclass(frozen=True)
class Settings:
    """What decides how long the phases take. `slurm` None: it could not be asked."""

    slurm: ConfigFacts | None
    spares: SparesConfig


def estimate(
    settings: Settings,
    history: Sequence[HistoryRecord],
    jobs: Sequence[JobOn],
    before: Phase | None = None,
) -> Estimate:
    """For a spare that holds `jobs` now. `before`: what it lacks before a swap can begin."""
    phases = tuple(_phase(name, settings, history, jobs) for name in PHASES)
    phases = (before, *phases) if before is not None else phases
    by_person = settings.spares.policy == "suggest"
    note = "a person decides (policy suggest): their time is not in it" if by_person else ""
    return Estimate(phases, note)


def _phase(
    name: str, settings: Settings, history: Sequence[HistoryRecord], jobs: Sequence[JobOn]
) -> Phase:
    if name == "clear":
        stuck = next((job for job in jobs if job.kind != "filler"), None)
        if stuck is not None:
            return Phase(name, None, None, None, f"job {stuck.job_id} does not give way")
        if not jobs:
            return Phase(name, 0.0, 0.0, 0.0, "nothing runs there")
    if name in _WITHIN and _is_within(history):
        return Phase(name, 0.0, 0.0, 0.0, "part of the first step, as measured")
    measured = _measured(name, history)
    if measured is not None:
        return measured
    low_s, high_s, base = _assumed(name, settings)
    return Phase(name, low_s, (low_s + high_s) / 2, high_s, base)


def _measured(name: str, history: Sequence[HistoryRecord]) -> Phase | None:
    kinds = ("swap",) if name == "detect" else ("swap", "drill")
    fine = [each for each in _done(history) if each.kind in kinds]
    if name == "first_step":
        within = _is_within(history)
        fine = [each for each in fine if _has_within(each) == within]
    used = [each for each in fine if name in each.phases and _tells(name, each)][-_LAST:]
    if not used:
        return None
    values = [each.phases[name] for each in used]
    counts = [(sum(each.kind == kind for each in used), kind) for kind in kinds]
    words = [f"{count} {kind}{'s' if count > 1 else ''}" for count, kind in counts if count]
    base = f"measured in {' and '.join(words)}"
    return Phase(name, min(values), median(values), max(values), base, measured=True)


def _done(history: Sequence[HistoryRecord]) -> list[HistoryRecord]:
    return [each for each in history if each.kind in ("swap", "drill") and each.outcome == DONE]


def _is_within(history: Sequence[HistoryRecord]) -> bool:
    """Whether the last first step that was measured has start and load in it."""
    told = [each for each in _done(history) if "first_step" in each.phases]
    return bool(told) and _has_within(told[-1])


def _has_within(record: HistoryRecord) -> bool:
    return "first_step" in record.phases and not any(name in record.phases for name in _WITHIN)


def _tells(name: str, record: HistoryRecord) -> bool:
    """A spare that was clear tells nothing of how long clearing takes."""
    return name != "clear" or record.phases[name] > 1.0


def _assumed(name: str, settings: Settings) -> tuple[float, float, str]:
    slurm, spares = settings.slurm, settings.spares
    if name == "detect":
        timeout_s = slurm.slurmd_timeout_s if slurm is not None else None
        if not timeout_s:
            return _USUAL_TIMEOUT_S / 3, _USUAL_TIMEOUT_S, f"SlurmdTimeout unknown: {_PUBLISHED}"
        return timeout_s / 3, float(timeout_s), f"SlurmdTimeout is {age(timeout_s)}"
    if name == "decide":
        waits_s = spares.grace_s + spares.period_s
        return _DECIDING_S, _DECIDING_S + waits_s, "[spares] grace_s and period_s"
    if name == "clear":
        kill_s = slurm.kill_wait_s if slurm is not None else None
        base = f"KillWait is {age(kill_s)}" if kill_s else f"KillWait unknown: {_PUBLISHED}"
        return 1.0, (kill_s or _USUAL_KILL_WAIT_S) + _EPILOG_S, f"{base}, and an epilog"
    if name == "reservation":
        return (*_RESERVATION_S, "one change of the reservation")
    if name == "requeue":
        if slurm is None:
            return _START_NOW_S, 121.0, f"Slurm's delay unknown: {_PUBLISHED}"
        text = f"Slurm's delay after a requeue is {age(slurm.start_delay_s)}; it can be taken away"
        return min(_START_NOW_S, slurm.start_delay_s), slurm.start_delay_s + 1.0, text
    low_s, high_s = _USUAL_S[name]
    return float(low_s), float(high_s), _PUBLISHED
