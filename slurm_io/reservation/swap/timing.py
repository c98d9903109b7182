"""How long a swap to an idle spare takes here, and how much longer clearing a busy one does."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from slurm_io.errors import HostError, SlurmError
from slurm_io.reservation.history import History, HistoryRecord
from slurm_io.reservation.status.estimate import Settings, estimate
from slurm_io.reservation.status.model import Estimate, JobOn
from slurm_io.reservation.swap.world import World


@dataclass(frozen=True)
class Timing:
    """Seconds: `clear_s` until filler has left a spare, `idle_s` from a failure to the first step
    on an idle one (None: not known). `is_measured`: all of it by swaps and drills of this site."""

    clear_s: float
    idle_s: float | None
    is_measured: bool

    def words(self, busy: bool) -> str:
        """For people."""
        if self.idle_s is None:
            return ""
        total_s = self.idle_s + (self.clear_s if busy else 0.0)
        base = "as measured here" if self.is_measured else "partly by usual figures"
        return f"about {total_s:.0f} s from a failure to the first step, {base}"


def timing_of(world: World, reservation: str) -> Timing:
    """By the history, where it tells; see :mod:`slurm_io.reservation.status.estimate`."""
    facts = None
    past: tuple[HistoryRecord, ...] = ()
    with contextlib.suppress(SlurmError):
        facts = world.slurm.config()
    with contextlib.suppress(HostError):
        past = History(world.config.state_dir, reservation).read()
    settings = Settings(facts, world.config.spares)
    idle = estimate(settings, past, [])
    busy = estimate(settings, past, [JobOn("1", None, "filler", None, may_requeue=True)])
    measured = all(phase.measured or phase.name == "clear" for phase in idle.phases)
    return Timing(_clear_s(busy, world.config.spares.clear_s), idle.usual_s, measured)


def _clear_s(busy: Estimate, limit_s: float) -> float:
    found = next((phase.usual_s for phase in busy.phases if phase.name == "clear"), None)
    return limit_s if found is None else found
