"""Judgements beside live stacks: dead workers in a process list or a traceback, native walks."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_io.frames.table import FrameTable
from slurm_io.frames.thread import ThreadState, judge_thread
from slurm_io.records import dataclass
from slurm_io.stacktext.gdb import NativeThread
from slurm_io.stacktext.model import Frame
from slurm_io.stacktext.ps import ProcessLine
from slurm_io.stacktext.tracebacks import Traceback
from slurm_io.stacktext.worker_deaths import WorkerDeath


@dataclass(frozen=True)
class Crew:
    """Processes of one training job as ps shows them, by pid."""

    rank: int | None
    workers: tuple[int, ...]
    alive: tuple[int, ...]
    dead: tuple[int, ...]

    @property
    def cause(self) -> str | None:
        """worker_died: a worker is a zombie, and the rank waits for a batch that never comes. No
        storage's fault."""
        return "worker_died" if set(self.dead) & set(self.workers) else None


@dataclass(frozen=True)
class Death:
    """A loader worker that died, and what its rank was doing when it heard of it."""

    death: WorkerDeath
    before: ThreadState | None


@dataclass(frozen=True)
class NativeWalk:
    """A native thread: its state, and the folder it walks, where it walks one."""

    thread: ThreadState
    path: str | None
    is_metadata: bool


def judge_crew(processes: Sequence[ProcessLine]) -> Crew:
    """Who trains, who loads, who is dead, of the Python processes in a list.

    By parentage where the list has it. Else a session leader, or the lowest pid, of several that
    run the same program is the rank; a zombie has no command line, only the program's name.
    """
    pythons = [one for one in processes if one.program.startswith(("python", "pt_data_worker"))]
    rank = _rank(pythons)
    below = [one for one in pythons if rank is not None and one.pid != rank.pid]
    if rank is not None and any(one.ppid is not None for one in pythons):
        family = _descendants(rank.pid, pythons)
        below = [one for one in below if one.pid in family]
    return Crew(
        rank=rank.pid if rank is not None else None,
        workers=tuple(sorted(one.pid for one in below)),
        alive=tuple(sorted(one.pid for one in processes if not one.is_zombie)),
        dead=tuple(sorted(one.pid for one in processes if one.is_zombie)),
    )


def _rank(pythons: Sequence[ProcessLine]) -> ProcessLine | None:
    living = [one for one in pythons if not one.is_zombie]
    by_pid = {one.pid for one in pythons}
    tops = [one for one in living if one.ppid is not None and one.ppid not in by_pid]
    leaders = [one for one in living if "s" in one.state[1:]]
    candidates = tops or leaders or living
    return min(candidates, key=lambda one: one.pid, default=None)


def _descendants(pid: int, processes: Sequence[ProcessLine]) -> set[int]:
    found, growing = {pid}, True
    while growing:
        new = {one.pid for one in processes if one.ppid in found} - found
        growing = bool(new)
        found |= new
    return found


def judge_deaths(
    deaths: Sequence[WorkerDeath], tracebacks: Sequence[Traceback], table: FrameTable
) -> list[Death]:
    """Each death with the state of the stack in whose traceback it was raised."""
    told = [
        one for one in tracebacks if any(f"{pid}" in one.message for d in deaths for pid in d.pids)
    ]
    found = []
    for death in deaths:
        near = [one for one in told if any(f"{pid}" in one.message for pid in death.pids)]
        before = judge_thread(near[0].frames, table, True) if near else None
        found.append(Death(death, before))
    return found


def judge_native(thread: NativeThread, table: FrameTable) -> NativeWalk:
    """A gdb stack. A callback that was handed down (``func=0x… <name>``) counts as a frame outside
    those that call it back."""
    callbacks = tuple(Frame(name, "?") for name in thread.callbacks)
    state = judge_thread((*thread.frames, *callbacks), table, True)
    said = [table.meaning_of(frame) for frame in thread.frames]
    walks = any(one is not None and one.note == "metadata" for one in said)
    return NativeWalk(state, thread.paths[0] if thread.paths and walks else None, walks)
