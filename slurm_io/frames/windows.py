"""A recorded window of one process turned into states second by second.

py-spy looked at fixed instants; a chrometrace tells only when a stack changed. So the instants are
laid over the trace again: at each, the stacks of all threads are judged together. Instants at
which the training thread's stack was torn, or not there yet, count as `torn` and as no state.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

from slurm_io.frames.process import ProcessState, judge_process
from slurm_io.frames.table import FrameTable
from slurm_io.frames.thread import begins_main
from slurm_io.records import dataclass
from slurm_io.stacktext.model import Stack, Stretch, Thread, Trace
from slurm_io.stacktext.texts import shown

_SECOND_NS = 1_000_000_000
_MOST_INSTANTS = 10_000
_LONGEST_FOLDED = 1500
_MOST_FOLDED_FRAMES = 40


@dataclass(frozen=True)
class StateRow:
    """`end_ns` is the end of the second on the caller's grid. `certain` counts the samples whose
    state was more than what was left."""

    end_ns: int
    role: str
    state: str
    sub: str | None
    samples: int
    certain: int
    why: str
    folded: str


@dataclass(frozen=True)
class Window:
    """`rows` by second; `instants` all looks, `torn` those without a state."""

    rows: tuple[StateRow, ...]
    instants: int
    torn: int


_Key = tuple[int, str, str, str | None]


def judge_window(
    trace: Trace, table: FrameTable, rate_hz: float, start_ns: int, grid_ns: int
) -> Window:
    """States of one process. `start_ns`: when the recorder began (the trace's zero); `grid_ns`: any
    border of the seconds that rows stand on."""
    threads = _by_thread(trace)
    tally: dict[_Key, Counter[tuple[str, Stack]]] = {}
    certain: Counter[_Key] = Counter()
    judged: dict[tuple[Stack, ...], tuple[ProcessState, Stack] | None] = {}
    first_us = min((one.start_us for one in trace.stretches), default=0)
    step_us = 1e6 / rate_hz
    instants = torn = 0
    # Between two looks: a look reads one thread after the other, microseconds apart.
    while (at_us := first_us + (instants + 0.5) * step_us) < trace.end_us:
        if instants == _MOST_INSTANTS:
            break
        instants += 1
        stacks = _stacks_at(threads, at_us)
        if stacks not in judged:
            judged[stacks] = _judge(stacks, table)
        told = judged[stacks]
        if told is None:
            torn += 1
            continue
        state, stack = told
        end_ns = _end_of_second(start_ns + int(at_us * 1000), grid_ns)
        key = (end_ns, state.role, state.state, state.sub)
        tally.setdefault(key, Counter())[state.why, stack] += 1
        certain[key] += state.certain
    rows = tuple(
        _row(key, counts, certain[key]) for key, counts in sorted(tally.items(), key=_order)
    )
    return Window(rows, instants, torn)


def _order(item: tuple[_Key, object]) -> tuple[int, str, str, str]:
    (end_ns, role, state, sub), _ = item
    return end_ns, role, state, sub or ""


def _by_thread(trace: Trace) -> list[tuple[list[int], list[Stretch]]]:
    """For each thread its stretches and their starts, in order."""
    found: dict[tuple[int, int], list[Stretch]] = {}
    for one in trace.stretches:
        found.setdefault((one.pid, one.tid), []).append(one)
    return [([one.start_us for one in stretches], stretches) for stretches in found.values()]


def _stacks_at(threads: list[tuple[list[int], list[Stretch]]], at_us: float) -> tuple[Stack, ...]:
    stacks = []
    for starts, stretches in threads:
        index = bisect_right(starts, at_us) - 1
        if index >= 0 and at_us < stretches[index].end_us:
            stacks.append(stretches[index].frames)
    return tuple(stacks)


def _judge(stacks: tuple[Stack, ...], table: FrameTable) -> tuple[ProcessState, Stack] | None:
    if not any(begins_main(stack) for stack in stacks):
        return None
    state = judge_process([Thread(stack) for stack in stacks], table)
    return None if state.decider is None else (state, stacks[state.decider])


def _end_of_second(at_ns: int, grid_ns: int) -> int:
    """The first border of the grid behind `at_ns`."""
    return grid_ns + ((at_ns - grid_ns) // _SECOND_NS + 1) * _SECOND_NS


def _row(key: _Key, counts: Counter[tuple[str, Stack]], certain: int) -> StateRow:
    # Not most_common(): it imports, and who records as a job's user may be unable to.
    why, stack = max(counts, key=counts.__getitem__)
    end_ns, role, state, sub = key
    return StateRow(end_ns, role, state, sub, counts.total(), certain, why, fold(stack))


def fold(stack: Stack) -> str:
    """``root;…;leaf``, paths from the package on; a long stack keeps its innermost part."""
    parts = [shown(frame) for frame in stack[:_MOST_FOLDED_FRAMES]]
    text = ";".join(reversed(parts))
    return text if len(text) <= _LONGEST_FOLDED else "…" + text[-_LONGEST_FOLDED + 1 :]
