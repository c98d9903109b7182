"""Words of a swap: what is asked for, what is known by now, what came of it. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from slurm_io.errors import SlurmIoError

State = Literal["done", "planned", "nothing", "no-spare", "partial", "rolled-back", "stopped"]
"""done: the job runs (or needs no more). planned: dry run. nothing: no node looks bad. no-spare:
see `plan_b`. partial: swapped, and the job waits for another node. stopped: can be resumed."""
_FINE = ("done", "planned", "nothing")


@dataclass(frozen=True)
class Wish:
    """What somebody asked for; None = find it out. `force` skips the grace, `release` lets a job
    start that Slurm held after a failed launch. `kind`: how the history calls it. `since_s`: since
    when somebody knows the node to be bad (epoch s), where Slurm does not say."""

    reservation: str
    bad: str | None = None
    job: str | None = None
    spare: str | None = None
    force: bool = False
    release: bool = False
    kind: Literal["swap", "drill"] = "swap"
    since_s: float | None = None


@dataclass(frozen=True)
class Facts:
    """What a swap knows by now. All of it is in the journal before anything is done with it.

    `former`: nodes the job ran on. `seats`: how many it needs, `lacking`: how many of its nodes are
    gone. `tried`: (spare, why not). `before`: the reservation as it was first read (name, nodes,
    start_s, flags, users, accounts). `pins`: the job's --nodelist before. `unfit`: idle nodes of
    the reservation that it must not start on, `excluded` those that its --exclude names because of
    us. `held`: filler jobs held by us, `ended` those cancelled. `step_before`, `step_after`: of the
    training, around the failure; `run_before`, `first_before`: which run in its output that was,
    and its first step. `phases`: seconds.
    """

    bad: str | None = None
    evidence: str = ""
    failed_at_s: float | None = None
    began_s: float = 0.0
    job: str | None = None
    job_restarts: int | None = None
    former: tuple[str, ...] = ()
    seats: int | None = None
    lacking: int = 1
    spare: str | None = None
    spare_why: str = ""
    tried: tuple[tuple[str, str], ...] = ()
    before: Mapping[str, Any] | None = None
    verified_at_s: float | None = None
    drained: bool = False
    moved: bool = False
    held: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    pins: tuple[str, ...] | None = None
    unfit: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    requeued_at_s: float | None = None
    seen_waiting: bool = False
    running_at_s: float | None = None
    first_step_at_s: float | None = None
    job_ended: str | None = None
    first_step_by: str = ""
    is_late: bool = False
    run_before: int | None = None
    first_before: int | None = None
    step_before: int | None = None
    step_after: int | None = None
    lost_steps: int | None = None
    lost_why: str | None = None
    recorded: bool = False
    notes: tuple[str, ...] = ()
    phases: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As the journal holds it."""
        return asdict(self)


def facts_from(values: Mapping[str, Any], base: Facts | None = None) -> Facts:
    """`base` with journaled values in it; keys of another version are left out."""
    known = {each.name for each in fields(Facts)}
    kept = {name: _frozen(name, value) for name, value in values.items() if name in known}
    return Facts(**{**_shallow(base or Facts()), **kept})


def _shallow(facts: Facts) -> dict[str, Any]:
    return {each.name: getattr(facts, each.name) for each in fields(facts)}


def _frozen(name: str, value: Any) -> Any:
    """JSON has lists only."""
    if name == "tried":
        return tuple((str(node), str(why)) for node, why in value)
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class StepReport:
    """One step: done, already (the world was so), would (dry run), failed, undone."""

    name: str
    outcome: Literal["done", "already", "would", "failed", "undone"]
    text: str
    seconds: float = 0.0


@dataclass(frozen=True)
class SwapAnswer:
    """What a swap came to. `plan_b`: what can be done without a spare. `asked`: the roll-back was
    what somebody asked for."""

    reservation: str
    state: State
    text: str
    facts: Facts
    steps: tuple[StepReport, ...] = ()
    plan_b: tuple[str, ...] = ()
    asked: bool = False

    @property
    def exit_code(self) -> int:
        """0 fine, 1 swapped but the job still waits, 3 not done."""
        return 0 if self.state in _FINE or self.asked else 1 if self.state == "partial" else 3

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


class Nothing(SlurmIoError):
    """There is nothing to swap."""


class NoSpare(SlurmIoError):
    """No spare can take over; `plan_b` holds what can be done instead."""

    def __init__(self, text: str, plan_b: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.plan_b = plan_b


class NextSpare(SlurmIoError):
    """This spare cannot take over; another one may."""


class Declined(SlurmIoError):
    """The swap must not be done: nothing was changed."""


class GaveUp(SlurmIoError):
    """The job did not come back in time: what can be taken back is, and a person is called."""
