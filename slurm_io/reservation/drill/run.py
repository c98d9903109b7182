"""A drill from its beginning to the last thing given back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from slurm_io.config import Config
from slurm_io.errors import SlurmError, SlurmRefused
from slurm_io.reservation.drill.debt import REASON, Debt, debt_of, keep_debt, pay_back
from slurm_io.reservation.drill.job import drill_job
from slurm_io.reservation.drill.seats import Seats, seats_of
from slurm_io.reservation.swap.journal import unfinished
from slurm_io.reservation.swap.lock import holder_of
from slurm_io.reservation.swap.model import StepReport, SwapAnswer, Wish
from slurm_io.reservation.swap.run import roll_back, swap
from slurm_io.reservation.swap.world import World
from slurm_io.reservation.user_job import account_of

START_S = 120.0
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Drill:
    """What came of it. `phases`: seconds; `state` is the swap's ("done"), or ``planned``."""

    reservation: str
    state: str
    text: str
    seats: Seats
    job: str = ""
    phases: dict[str, float] = field(default_factory=dict)
    given_back: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


def drill(
    world: World,
    name: str,
    count: int,
    folder: str | None,
    tell: Tell,
    show: Callable[[StepReport], None],
    dry: bool = False,
) -> Drill:
    """Submit the job, fence one of its nodes, swap, measure, give everything back.

    Args:
        folder: where the job runs; it must be writable by filler_user and readable here. None =
            the account's home.
        tell, show: for lines and for the swap's steps.

    Raises SlurmRefused when protected work would be touched, when something is under way, or too
    few nodes are free; ConfigError without a filler_user. Whatever happens after the job was
    submitted, all is given back first.
    """
    pool = world.read_pool()
    label = f"[reservation.{name}] filler_user"
    account = account_of(pool.settings.filler_user, label)
    _refuse_busy(world.config, name)
    seats = seats_of(pool, count)
    if dry:
        text = (
            f"would run a job on {', '.join(seats.nodes)} as {account.pw_name}, drain {seats.bad}, "
            f"swap it for one of {', '.join(seats.spares)}, and give all back"
        )
        return Drill(name, "planned", text, seats)
    state_dir = world.config.state_dir
    debt = Debt(seats.bad, pool.reservation.nodes)
    keep_debt(state_dir, name, debt)
    given_back: list[str] = []
    try:
        wanted = drill_job(name, seats.nodes, account, folder or account.pw_dir)
        job = world.slurm.submit(wanted)
        debt = replace(debt, job=job)
        keep_debt(state_dir, name, debt)
        answer = _rehearse(world, name, seats, job, tell, show)
    finally:
        given_back = _settle(world, name, debt)
        for line in given_back:
            tell(line)
    phases = dict(answer.facts.phases)
    return Drill(name, answer.state, answer.text, seats, job, phases, tuple(given_back))


def give_back(world: World, name: str) -> list[str]:
    """What a drill that was killed still owes. Raises SlurmRefused when there is nothing."""
    debt = debt_of(world.config.state_dir, name)
    if debt is None:
        raise SlurmRefused(f"no drill of reservation {name} owes anything")
    return _settle(world, name, debt)


def _settle(world: World, name: str, debt: Debt) -> list[str]:
    """A swap that was cut short with the drill is closed first: it would stop every later one."""
    state_dir = world.config.state_dir
    left = unfinished(state_dir, name)
    if left is not None and left.wish.get("kind") == "drill":
        roll_back(world, Wish(name))
    return pay_back(world.slurm, state_dir, name, debt)


def _refuse_busy(config: Config, name: str) -> None:
    holder = holder_of(config.state_dir, name)
    if holder is not None:
        raise SlurmRefused(f"{holder.words} works on reservation {name}: wait for it")
    if unfinished(config.state_dir, name) is not None:
        raise SlurmRefused(
            f"a swap of reservation {name} was begun and not ended: slurm-io spare swap {name} "
            "--resume or --roll-back first"
        )
    if debt_of(config.state_dir, name) is not None:
        raise SlurmRefused(
            f"an earlier drill was killed: slurm-io spare drill {name} --give-back first"
        )


def _rehearse(
    world: World,
    name: str,
    seats: Seats,
    job: str,
    tell: Tell,
    show: Callable[[StepReport], None],
) -> SwapAnswer:
    _await_steps(world, job)
    tell(f'job {job} runs on {", ".join(seats.nodes)}: {seats.bad} "fails" now')
    world.slurm.drain(seats.bad, f"{REASON} of reservation {name}: it is well, resume it any time")
    wish = Wish(name, bad=seats.bad, job=job, force=True, kind="drill")
    return swap(world, wish, show)


def _await_steps(world: World, job: str) -> None:
    """Until it makes steps. Raises SlurmError when it does not within two minutes."""
    until_s = world.clock.now_s() + START_S
    while world.clock.now_s() < until_s:
        found = world.slurm.job(job)
        seen = world.read_steps(found) if found.state == "RUNNING" else None
        if seen is not None and (seen.last is not None or seen.why):
            return
        world.clock.sleep(world.poll_s)
    found = world.slurm.job(job)
    raise SlurmError(
        f"the drill's job {job} is {found.state} ({found.reason}) after {START_S:.0f} s and makes "
        "no steps: may filler_user use this reservation, and write to the folder?"
    )
