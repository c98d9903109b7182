"""From wishes to deeds: what policy `auto` starts, `suggest` only says; each situation once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from slurm_io.errors import SlurmIoError
from slurm_io.reservation.watch.filler import LONGEST_PAUSE_S
from slurm_io.reservation.watch.memory import MOST_ENTRIES, Filler, Memory, Task
from slurm_io.reservation.watch.model import Fill, Look, Start, StopFiller, Tell, Wish
from slurm_io.reservation.watch.stopping import not_stopped_here
from slurm_io.reservation.watch.world import World

Policy = Literal["suggest", "auto"]
SILENCE_S = 900.0
"""A situation that ended is new again after this time; until then it would only flicker."""
PAUSE_S = 600.0
MOST_PAUSE_S = 86400.0


@dataclass(frozen=True)
class Event:
    """One line of the watch's log. `at_s`: epoch seconds."""

    at_s: float
    event: str
    reservation: str
    text: str
    node: str | None = None
    person: bool = False

    def line(self) -> str:
        """For people."""
        node = f" {self.node}:" if self.node else ""
        line = f"{self.event} {self.reservation}:{node} {self.text}"
        return "".join(each if each.isprintable() else "?" for each in line)

    def to_json(self) -> str:
        """For programs, one line."""
        facts: dict[str, Any] = asdict(self)
        return json.dumps(facts)


def carry_out(
    wishes: Iterable[Wish], look: Look, memory: Memory, world: World, policy: Policy
) -> list[Event]:
    """Do, or say, what was wished. What fails is said and tried again at a later look."""
    events: list[Event] = []
    for wish in wishes:
        if isinstance(wish, Tell):
            events += tell([wish], look.pool.name, look.at_s, memory)
        elif isinstance(wish, Start) and policy == "suggest":
            events += tell([_suggestion(wish)], look.pool.name, look.at_s, memory)
        else:
            events += _do(wish, look, memory, world)
    return events


def tell(tells: Sequence[Tell], reservation: str, at_s: float, memory: Memory) -> list[Event]:
    """Those that are new; the memory takes note of all of them."""
    events = []
    for each in tells:
        last_s = memory.said.pop(each.key, None)
        if last_s is None or at_s - last_s > SILENCE_S:
            event = Event(at_s, each.event, reservation, each.text, each.node, each.person)
            events.append(event)
        memory.said[each.key] = at_s
    while len(memory.said) > MOST_ENTRIES:
        memory.said.pop(next(iter(memory.said)))
    return events


def notice_ends(memory: Memory, world: World, reservation: str, at_s: float) -> list[Event]:
    """Processes of ours that have ended. Work on the same trouble pauses for longer each time."""
    events = []
    for key, task in memory.tasks.items():
        if task.pid and not world.is_running(task.pid, task.born):
            task.pid = task.born = 0
            task.failures += 1
            pause_s = min(PAUSE_S * 2.0 ** min(task.failures - 1, 20), MOST_PAUSE_S)
            task.not_before_s = at_s + pause_s
            node = key.partition(" ")[2]
            text = f"{task.work} has ended after {at_s - task.started_s:.0f} s"
            events.append(Event(at_s, "ended", reservation, text, node))
    return events


def _suggestion(start: Start) -> Tell:
    """For a person, whose swap looks for itself, as late as they may start it."""
    shown = [each for each in start.arguments if not each.startswith(("--force", "--since="))]
    command = f"slurm-io {' '.join(shown)}"
    return Tell(
        f"suggest {start.work} {start.node} {start.since_s:.0f}",
        f"{start.text}; to do it: {command}",
        start.node,
        person=start.work == "swap",
        event=f"suggest-{start.work}",
    )


def _do(wish: Start | Fill | StopFiller, look: Look, memory: Memory, world: World) -> list[Event]:
    name: str
    try:
        if isinstance(wish, Start):
            name, text = wish.work, _start(wish, look.at_s, memory, world)
        elif isinstance(wish, Fill):
            name, text = "filler", _fill(wish, look.at_s, memory, world)
        else:
            name, text = "filler-stopped", _stop_filler(wish, look.at_s, memory, world)
    except SlurmIoError as error:
        key = f"failed {type(wish).__name__} {wish.node}"
        urgent = isinstance(wish, Start) and wish.work == "swap"
        failed = Tell(key, str(error), wish.node, urgent, "failed")
        return tell([failed], look.pool.name, look.at_s, memory)
    person = name in ("swap", "filler-stopped")
    return [Event(look.at_s, name, look.pool.name, text, wish.node, person)]


def _start(start: Start, at_s: float, memory: Memory, world: World) -> str:
    """Remembered whenever it runs: the same trouble is not to be worked on twice."""
    key = f"{start.work} {start.node}"
    before = memory.tasks.get(key)
    same = before is not None and before.since_s == start.since_s
    failures = before.failures if before is not None and same else 0
    task = memory.tasks[key] = Task(start.work, start.since_s, at_s, failures=failures)
    try:
        with not_stopped_here():
            task.pid, task.born = world.start(start.arguments)
    except SlurmIoError:
        del memory.tasks[key]  # nothing was begun: the next look tries again
        raise
    return f"{start.text}; started slurm-io {' '.join(start.arguments)}, process {task.pid}"


def _fill(fill: Fill, at_s: float, memory: Memory, world: World) -> str:
    before = memory.fillers.get(fill.node, Filler())
    # Should the submission fail, the next try waits too.
    memory.fillers[fill.node] = Filler("", at_s, before.failures, at_s + PAUSE_S)
    job_id = world.submit_filler(fill.node)
    memory.fillers[fill.node] = Filler(job_id, at_s, before.failures)
    return f"job {job_id} was submitted; it gives way to a swap"


def _stop_filler(stop: StopFiller, at_s: float, memory: Memory, world: World) -> str:
    memory.fillers[stop.node] = Filler("", at_s, 1, at_s + LONGEST_PAUSE_S)
    world.cancel(stop.job_id)
    return stop.text
