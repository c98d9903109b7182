"""What the spare screen shows. Pure data; None is unknown, and a text beside it says why."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from slurm_io.reservation.model import SpareState

JobKind = Literal["protected", "filler", "foreign"]


@dataclass(frozen=True)
class JobOn:
    """A job that holds a spare now. `left_s` None: no time limit, or not known."""

    job_id: str
    user: str | None
    kind: JobKind
    left_s: float | None
    may_requeue: bool | None


@dataclass(frozen=True)
class Phase:
    """One part of a swap: between `low_s` and `high_s`, usually `usual_s`. `base` says where the
    numbers are from; `measured` from this site's swaps and drills. None: it cannot be done."""

    name: str
    low_s: float | None
    usual_s: float | None
    high_s: float | None
    base: str
    measured: bool = False


@dataclass(frozen=True)
class Estimate:
    """Time from a failure to the first step on this spare. Sums are None when a phase is."""

    phases: tuple[Phase, ...]
    note: str = ""

    @property
    def low_s(self) -> float | None:
        """All phases at their shortest."""
        return _sum([phase.low_s for phase in self.phases])

    @property
    def usual_s(self) -> float | None:
        """All phases as usual."""
        return _sum([phase.usual_s for phase in self.phases])

    @property
    def high_s(self) -> float | None:
        """All phases at their longest."""
        return _sum([phase.high_s for phase in self.phases])

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        sums = {"low_s": self.low_s, "usual_s": self.usual_s, "high_s": self.high_s}
        return {**sums, **asdict(self)}


@dataclass(frozen=True)
class Drift:
    """Something that is otherwise on the spare than on most nodes of the run."""

    what: str
    spare: str
    run: str


@dataclass(frozen=True)
class SpareStatus:
    """One spare. Texts that came from nodes or users are one printable line each.

    `same_content`: whether it holds the run's version. `eta_s`: until nothing is missing at the
    rate its copy had. `health`: the worst answer. `same_switch` as the run's nodes; `switch_text`
    says which, or why it is not known. `gpu_notes`: GPUs that were in a node when it failed.
    `last_swapped_s`: epoch of the last swap or drill that brought it in.
    """

    node: str
    state: SpareState
    reason: str
    membership: Literal["reservation", "standby"]
    slurm_state: str
    slurm_reason: str = ""
    content_id: str | None = None
    same_content: bool | None = None
    bytes_behind: int | None = None
    files_behind: int | None = None
    eta_s: float | None = None
    level: int | None = None
    verified_age_s: float | None = None
    data_text: str = ""
    health: str | None = None
    health_age_s: float | None = None
    health_texts: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    jobs: tuple[JobOn, ...] = ()
    estimate: Estimate = field(default_factory=lambda: Estimate(()))
    same_switch: bool | None = None
    switch_text: str = ""
    drift: tuple[Drift, ...] = ()
    drift_text: str = ""
    gpu_notes: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()
    free_bytes: int | None = None
    last_swapped_s: float | None = None
    last_swapped_kind: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {**asdict(self), "estimate": self.estimate.to_dict()}


@dataclass(frozen=True)
class Money:
    """USD a week. `*_base` say what the numbers rest on."""

    spares_usd: float
    spares_base: str
    avoided_usd: float | None
    avoided_base: str


@dataclass(frozen=True)
class Fleet:
    """All spares of a reservation together.

    `wanted`: [reservation] needed. `needed`: at 99 %, None where it cannot be told. `promised`:
    nodes that waiting protected jobs will take. `failures_per_week` is what the history shows, None
    without one; `rate_per_node_week` what `needed` rests on. `lemons`: node and failures in 30
    days. `mttr_s`: mean time from failure to repair.
    """

    spares: int
    ready: int
    promised: int
    wanted: int
    run_nodes: int
    needed: int | None
    needed_base: str
    failures: int
    observed_s: float | None
    failures_per_week: float | None
    rate_per_node_week: float
    dispersion: float
    lemons: tuple[tuple[str, int], ...] = ()
    mttr_s: float | None = None
    repairs: int = 0
    swaps: int = 0
    money: Money | None = None
    money_text: str = ""

    @property
    def is_short(self) -> bool:
        """Whether fewer spares are ready than the site wants."""
        return self.ready - self.promised < self.wanted


@dataclass(frozen=True)
class Status:
    """The whole screen. `content_id`: the run's version, `content_base` who says so."""

    reservation: str
    at_s: float
    ends_in_s: float | None
    is_active: bool | None
    dataset: str
    content_id: str | None
    content_base: str
    spares: tuple[SpareStatus, ...]
    fleet: Fleet
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0: enough spares are ready; 1: fewer; 3: nothing is known of any spare."""
        if not self.fleet.is_short:
            return 0
        nothing_known = all(spare.state == "unknown" for spare in self.spares)
        return 3 if self.spares and nothing_known else 1

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "schema": 1,
            **asdict(self),
            "spares": [spare.to_dict() for spare in self.spares],
            "fleet": {**asdict(self.fleet), "is_short": self.fleet.is_short},
        }


def _sum(parts: list[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
