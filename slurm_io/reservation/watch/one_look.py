"""One turn of the watch: look, remember, decide, act."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_io.config import SparesConfig
from slurm_io.errors import SlurmIoError, UsageError
from slurm_io.reservation.history import HistoryRecord
from slurm_io.reservation.watch.act import Event, Policy, carry_out, notice_ends, tell
from slurm_io.reservation.watch.decide import wishes_of
from slurm_io.reservation.watch.memory import Memory
from slurm_io.reservation.watch.model import Look, Tell
from slurm_io.reservation.watch.observe import observe
from slurm_io.reservation.watch.world import World


@dataclass(frozen=True)
class How:
    """One reservation's watch: whose, how, and who decides."""

    reservation: str
    spares: SparesConfig
    policy: Policy


def one_look(world: World, memory: Memory, how: How, at_s: float) -> list[Event]:
    """Look once and do what is to be done; what there is to say. Raises UsageError only: a
    reservation that has no settings."""
    ended = notice_ends(memory, world, how.reservation, at_s)
    try:
        look = world.look(at_s, tuple(memory.left))
    except UsageError:
        raise
    except SlurmIoError as error:
        # Nothing is known of the nodes while nobody answers: each gets its full grace afterwards.
        memory.forget_signs()
        text = f"{error}; nothing is done until it answers"
        blind = Tell("blind", text, event="standstill", person=True)
        return [*ended, *tell([blind], how.reservation, at_s, memory)]
    events = tell(observe(look, memory, how.spares.period_s), how.reservation, at_s, memory)
    events += _history(look, memory, how, world)
    wishes = wishes_of(look, memory, how.spares)
    events += carry_out(wishes, look, memory, world, how.policy)
    events += _features(look, memory, world)
    for event in events:
        if event.person:
            _alert(event, world)
    return [*ended, *events]


def _history(look: Look, memory: Memory, how: How, world: World) -> list[Event]:
    """Failures that outlasted the grace, once for each outage: they make the list of lemons."""
    failures = []
    for node, spell in memory.bad.items():
        lasted_s = look.at_s - spell.since_s
        known = node in memory.recorded
        if spell.is_fault and not known and lasted_s >= how.spares.grace_s:
            memory.recorded[node] = spell.since_s
            says = look.says.get(node)
            gpus = says.gpus if says is not None else ()
            record = HistoryRecord("failure", spell.since_s, node, outcome=spell.text, gpus=gpus)
            failures.append(record)
    try:
        for failure in failures:
            world.record(failure)
    except SlurmIoError as error:
        return [Event(look.at_s, "failed", how.reservation, f"history: {error}")]
    return []


def _features(look: Look, memory: Memory, world: World) -> list[Event]:
    if not look.pool.settings.feature:
        return []
    try:
        changes = world.sync_features(look, tuple(memory.distrusted))
    except SlurmIoError as error:
        changes = [f"not in step: {error}"]
    return [Event(look.at_s, "feature", look.pool.name, text) for text in changes]


def _alert(event: Event, world: World) -> None:
    """An alert that cannot be sent must not end the watch; the line is in the log all the same."""
    try:
        world.alert(event.line())
    except SlurmIoError:
        return
