"""What a process is doing: which of its threads decides, and what the others add.

The training thread decides for a rank, the loop for a worker. Where that thread only waits for
helpers of its own (a pool that downloads, a prefetch thread), the busiest helper says for what.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from slurm_io.frames.table import FrameTable
from slurm_io.frames.thread import State, ThreadState, begins_main, begins_thread, judge_thread
from slurm_io.records import dataclass
from slurm_io.stacktext.model import Thread

_TELLING = ("reading", "decoding", "transform", "collate", "receiving")
_ASKS_OTHERS = ("workers", "unknown", None)
_MAIN = "MainThread"
ProcessRole = Literal["rank", "worker"]


@dataclass(frozen=True)
class ProcessState:
    """`threads` in the order given; `decider` is the index of the one that decided, None without
    threads. The rest as in ThreadState."""

    role: ProcessRole
    state: State
    sub: str | None
    certain: bool
    why: str
    threads: tuple[ThreadState, ...] = ()
    decider: int | None = None
    blocking: bool | None = None


def judge_process(threads: Sequence[Thread], table: FrameTable) -> ProcessState:
    """State of one process from its threads."""
    decider = find_decider(threads, table)
    if decider is None:
        return ProcessState("rank", "other", None, False, "no thread was seen")
    states = tuple(
        judge_thread(thread.frames, table, at == decider) for at, thread in enumerate(threads)
    )
    main = states[decider]
    role: ProcessRole = "worker" if main.role == "worker" else "rank"
    state, sub, certain, why = main.state, main.sub, main.certain, main.why
    if sub in _ASKS_OTHERS and (role == "worker" or state == "data_wait"):
        told = _most_telling([one for at, one in enumerate(states) if at != decider])
        if told is not None and (role == "worker" or told.sub in ("reading", "decoding")):
            sub, why = told.sub, told.why
            state = told.state if role == "worker" else state
            certain = role == "rank"
    return ProcessState(role, state, sub, certain, why, states, decider, main.blocking)


def find_decider(threads: Sequence[Thread], table: FrameTable) -> int | None:
    """The main thread by its name, by where it begins; else the one a crash handler calls current;
    else the first that nothing marks as somebody's helper."""
    tests: tuple[Callable[[Thread], bool], ...] = (
        lambda thread: thread.name == _MAIN and bool(thread.frames),
        lambda thread: begins_main(thread.frames),
        lambda thread: thread.current,
        lambda thread: bool(thread.frames) and not begins_thread(thread.frames)
        and judge_thread(thread.frames, table, False).role == "thread",
    )  # fmt: skip
    for test in tests:
        found = [at for at, thread in enumerate(threads) if test(thread)]
        if found:
            return found[0]
    return 0 if threads else None


def _most_telling(states: Sequence[ThreadState]) -> ThreadState | None:
    for sub in _TELLING:
        for one in states:
            if one.sub == sub and one.role in ("helper", "thread") and one.certain:
                return one
    return None
