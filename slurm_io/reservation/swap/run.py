"""A swap from its wish to its answer: begin, resume, roll back, or only say what would be done."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Literal

from slurm_io.errors import HostError, SlurmIoError, SlurmUnreachable, UsageError
from slurm_io.reservation.swap.engine import Tell, back, dry, forward
from slurm_io.reservation.swap.journal import Journal, Unfinished, unfinished
from slurm_io.reservation.swap.lock import Lock, LockLost, held, holder_of
from slurm_io.reservation.swap.model import (
    Facts,
    NoSpare,
    Nothing,
    State,
    StepReport,
    SwapAnswer,
    Wish,
)
from slurm_io.reservation.swap.page import page
from slurm_io.reservation.swap.sequence import AGAIN_FROM, KEPT, STEPS
from slurm_io.reservation.swap.step import Case
from slurm_io.reservation.swap.steps.finish import keep
from slurm_io.reservation.swap.steps.requeue import HELD
from slurm_io.reservation.swap.world import World

JournalMaker = Callable[[str, str, str], Journal]
Swap = Callable[[World, Wish, Tell], SwapAnswer]


def swap(
    world: World, wish: Wish, tell: Tell = lambda report: None, journal: JournalMaker = Journal
) -> SwapAnswer:
    """Do it. Every exit but a kill, and Ctrl-C once something was done, leaves the journal closed,
    or says how to go on.

    Raises HostError when somebody else works on the reservation, UsageError for a swap that was
    begun and not ended, and for a wish that fits nothing.
    """
    facts = Facts(began_s=world.clock.now_s())
    with _locked(world, wish) as lock:
        left = unfinished(world.config.state_dir, wish.reservation)
        if left is not None:
            raise UsageError(_how_to_go_on(wish.reservation, left))
        number = f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}"
        book = journal(world.config.state_dir, wish.reservation, number)
        book.write("lock", "begin", json.dumps(asdict(wish)), {"began_s": facts.began_s})
        return _run(Case(world, wish, facts, book, lock), book, tell)


def resume(
    world: World, wish: Wish, tell: Tell = lambda report: None, journal: JournalMaker = Journal
) -> SwapAnswer:
    """Go on with a swap that was killed or stopped: the journal says what is known, the world what
    is done. Raises UsageError when there is none."""
    with _locked(world, wish) as lock:
        left = _left(world, wish)
        again = _wish_again(wish, left)
        book = journal(world.config.state_dir, wish.reservation, left.swap)
        book.write("lock", "done", "resumed", {})
        case = Case(world, again, left.facts, book, lock)
        case.acted = True  # by whoever began it
        return _run(case, book, tell)


def roll_back(
    world: World, wish: Wish, tell: Tell = lambda report: None, journal: JournalMaker = Journal
) -> SwapAnswer:
    """Take back what a killed or stopped swap did. Raises UsageError when there is none."""
    with _locked(world, wish) as lock:
        left = _left(world, wish)
        book = journal(world.config.state_dir, wish.reservation, left.swap)
        case = Case(world, _wish_again(wish, left), left.facts, book, lock)
        reports: list[StepReport] = []
        fine = back(case, STEPS, _both(reports, tell))
        text = "taken back" if fine else "taken back as far as it could be"
        answer = _ended(case, book, "rolled-back", f"{text}; {_where(case.facts)}", reports)
        return replace(answer, asked=True)


def plan(world: World, wish: Wish, tell: Tell = lambda report: None) -> SwapAnswer:
    """What a swap would do now. Changes nothing."""
    return plan_case(Case(world, wish, Facts(began_s=world.clock.now_s())), tell)


def plan_case(case: Case, tell: Tell = lambda report: None) -> SwapAnswer:
    """The same from facts that are known, or assumed."""
    reports: list[StepReport] = []
    name = case.wish.reservation
    busy = holder_of(case.world.config.state_dir, name)
    text = "would be taken" if busy is None else f"is held: {busy.words}"
    _both(reports, tell)(StepReport("lock", "would", text))
    try:
        dry(case, STEPS, _both(reports, tell))
    except Nothing as error:
        return SwapAnswer(name, "nothing", str(error), case.facts, tuple(reports))
    except NoSpare as error:
        return SwapAnswer(name, "no-spare", str(error), case.facts, tuple(reports), error.plan_b)
    facts = case.facts
    text = f"{facts.spare or 'no spare'} would take over from {facts.bad}"
    return SwapAnswer(name, "planned", text, facts, tuple(reports))


def _run(case: Case, book: Journal, tell: Tell) -> SwapAnswer:
    reports: list[StepReport] = []
    try:
        forward(case, STEPS, AGAIN_FROM, KEPT, _both(reports, tell))
    except Nothing as error:
        return _ended(case, book, "nothing", str(error), reports)
    except SlurmUnreachable as error:
        name = case.wish.reservation
        text = f"{error}; nothing more was done: `slurm-io spare swap {name} --resume` goes on"
        page(case.world.config, f"swap of {name} stopped: {error}")
        return SwapAnswer(name, "stopped", text, case.facts, tuple(reports))
    except LockLost:
        raise
    except KeyboardInterrupt:
        if not case.acted:
            with contextlib.suppress(SlurmIoError):
                case.report("end", "interrupted; nothing was done")
        raise
    except NoSpare as error:
        return _failed(case, book, "no-spare", error, error.plan_b, reports, tell)
    except (HostError, SlurmIoError) as error:
        if not case.acted:
            book.write(case.step, "end", str(error), {})
            raise
        return _failed(case, book, "rolled-back", error, (), reports, tell)
    return _finished(case, book, reports)


def _failed(
    case: Case,
    book: Journal,
    state: State,
    error: SlurmIoError,
    plan_b: tuple[str, ...],
    reports: list[StepReport],
    tell: Tell,
) -> SwapAnswer:
    """Take back what can be, keep it in the history, and call a person."""
    name, text = case.wish.reservation, str(error)
    try:
        if case.acted and not back(case, STEPS, _both(reports, tell)):
            text += "; not all could be taken back"
    except SlurmUnreachable as silent:
        text += f"; taken back nothing: {silent}; `slurm-io spare swap {name} --roll-back`"
        page(case.world.config, f"swap of {name} failed: {text}")
        return SwapAnswer(name, "stopped", text, case.facts, tuple(reports), plan_b)
    with contextlib.suppress(SlurmIoError):
        keep(case, text[:200])
    page(case.world.config, f"swap of {case.facts.bad} in {name} failed: {text}")
    return replace(_ended(case, book, state, text, reports), plan_b=plan_b)


def _finished(case: Case, book: Journal, reports: list[StepReport]) -> SwapAnswer:
    facts = case.facts
    state: State = "done"
    text = _where(facts)
    if facts.lacking > 1:
        state = "partial"
        text += f"; {facts.lacking - 1} more of the job's nodes must be swapped: see the notes"
    elif facts.job_ended == HELD:
        state = "partial"
        text += f"; job {facts.job} is held, and a person must release it"
        page(case.world.config, f"swap of {facts.bad} in {case.wish.reservation}: {text}")
    elif facts.is_late:
        state = "partial"
        text += f"; job {facts.job}: {facts.first_step_by}: a person must look"
        page(case.world.config, f"swap of {facts.bad} in {case.wish.reservation}: {text}")
    elif facts.job is not None:
        text += f"; job {facts.job}: {facts.job_ended or facts.first_step_by or 'runs'}"
    return _ended(case, book, state, text, reports)


def _ended(
    case: Case, book: Journal, state: State, text: str, reports: list[StepReport]
) -> SwapAnswer:
    book.write("end", "end", f"{state}: {text}", {})
    return SwapAnswer(case.wish.reservation, state, text, case.facts, tuple(reports))


def _where(facts: Facts) -> str:
    if facts.bad is None:
        return "nothing was swapped"
    return f"{facts.bad} -> {facts.spare}" if facts.spare else f"{facts.bad} is out"


@contextlib.contextmanager
def _locked(world: World, wish: Wish) -> Iterator[Lock]:
    config = world.config
    with held(config.state_dir, wish.reservation, config.spares.lock_s, "a swap") as lock:
        yield lock


def _left(world: World, wish: Wish) -> Unfinished:
    left = unfinished(world.config.state_dir, wish.reservation)
    if left is None:
        raise UsageError(f"no swap of reservation {wish.reservation} is unfinished")
    return left


def _wish_again(wish: Wish, left: Unfinished) -> Wish:
    """As it was wished first; only the permissions may be given anew."""
    named = {name: left.wish.get(name) for name in ("bad", "job", "spare", "since_s")}
    force = wish.force or bool(left.wish.get("force"))
    kind: Literal["swap", "drill"] = "drill" if left.wish.get("kind") == "drill" else "swap"
    return Wish(wish.reservation, **named, force=force, release=wish.release, kind=kind)


def _how_to_go_on(name: str, left: Unfinished) -> str:
    return (
        f"a swap of {left.facts.bad or 'a node'} in {name} was begun and not ended (last: "
        f"{left.last_step} {left.last_event}): `slurm-io spare swap {name} --resume` goes on, "
        "--roll-back takes it back"
    )


def _both(reports: list[StepReport], tell: Tell) -> Tell:
    def add(report: StepReport) -> None:
        reports.append(report)
        tell(report)

    return add
