"""Runs the steps of a swap: forward, again after a kill, and back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Literal

from slurm_io.errors import SlurmIoError, SlurmUnreachable
from slurm_io.reservation.swap.lock import LockLost
from slurm_io.reservation.swap.model import Declined, NextSpare, StepReport
from slurm_io.reservation.swap.step import Case, Step

Tell = Callable[[StepReport], None]
RETRY_S = 2.0


def forward(
    case: Case, steps: Sequence[Step], again_from: str, kept: Sequence[str], tell: Tell
) -> None:
    """Every step in order. When a spare turns out unfit, all from step `again_from` on but `kept`
    are taken back, and the next spare is tried.

    Raises what a step raises; SlurmUnreachable only after the controller was silent for so long as
    the world is patient.
    """
    numbers = {step.name: number for number, step in enumerate(steps)}
    number = 0
    while number < len(steps):
        step = steps[number]
        try:
            _one(case, step, tell)
            number += 1
        except NextSpare as unfit:
            tell(StepReport(step.name, "failed", f"{case.facts.spare}: {unfit}"))
            number = numbers[again_from]
            own = [each for each in steps[number:] if each.name not in kept]
            if not back(case, own, tell):
                raise Declined(f"{unfit}, and not all could be taken back for the next") from unfit
            case.step = step.name
            case.forget_spare(str(unfit))


def dry(case: Case, steps: Sequence[Step], tell: Tell) -> None:
    """What every step would do. Changes nothing."""
    for step in steps:
        case.step = step.name
        done = step.is_done(case)
        if done is not None:
            tell(StepReport(step.name, "already", done))
        else:
            tell(StepReport(step.name, "would", step.would(case)))


def back(case: Case, steps: Sequence[Step], tell: Tell) -> bool:
    """Take back what can be, last step first. A step that cannot be does not keep the others from
    it; True when all could. Raises SlurmUnreachable: then nothing is known."""
    fine = True
    for step in reversed(steps):
        case.step = step.name
        began_s = time.monotonic()
        outcome: Literal["failed", "undone"] = "undone"
        try:
            said = _patient(case, lambda step=step: step.undo(case))  # type: ignore[misc]
        except (SlurmUnreachable, LockLost):
            raise
        except SlurmIoError as error:
            said, outcome, fine = str(error), "failed", False
        if said is not None:
            case.report(outcome, said)
            tell(StepReport(step.name, outcome, said, time.monotonic() - began_s))
    return fine


def _one(case: Case, step: Step, tell: Tell) -> None:
    case.step = step.name
    began_s = case.world.clock.now_s()
    already = False

    def work() -> str:
        nonlocal already
        said = step.is_done(case)
        already = said is not None
        return step.do(case) if said is None else said

    try:
        said = _patient(case, work)
    except SlurmIoError as error:
        if not isinstance(error, NextSpare):
            with contextlib.suppress(SlurmIoError):
                case.report("failed", str(error))
            seconds = case.world.clock.now_s() - began_s
            tell(StepReport(step.name, "failed", str(error), seconds))
        raise
    seconds = case.world.clock.now_s() - began_s
    case.report("done", said or "")
    tell(StepReport(step.name, "already" if already else "done", said or "", seconds))


def _patient(case: Case, work: Callable[[], str | None]) -> str | None:
    """Again while the controller is silent: each piece of work looks at the world first."""
    clock = case.world.clock
    silent_since_s: float | None = None
    while True:
        try:
            return work()
        except SlurmUnreachable:
            now_s = clock.now_s()
            silent_since_s = now_s if silent_since_s is None else silent_since_s
            if now_s - silent_since_s >= case.world.patience_s:
                raise
            case.keep_lock()
            clock.sleep(RETRY_S)
