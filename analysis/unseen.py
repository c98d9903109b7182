"""Processes of the job that could not be looked at, or that lie where they should not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from slurm_io.analysis.facts import mapping, sources_of, whole
from slurm_io.analysis.inputs import NodeView, StoreView

_EMPTY_FROM_S = 30.0
_MOST_NODES_NAMED = 8

Line = tuple[str, str]
"""(source, reason), as the report's ``missing`` has them."""


def unseen(store: StoreView) -> list[Line]:
    """One line for each kind of gap, with the number of processes and the nodes."""
    found = [_line(store, source, count, why) for source, count, why in _kinds()]
    return [
        *(line for line in found if line is not None),
        *(line for view in store.nodes.values() for line in _of_node(view)),
    ]


def _kinds() -> tuple[tuple[str, Callable[[NodeView], int | None], str], ...]:
    hidden = "could not be looked at (hidden by /proc, or of another pid namespace)"
    hung = "hung so that the kernel answered nothing about them (execve on a dead file system)"
    closed = "let nobody but their owner and root read"
    outside = "ran outside the job's control group, as a container started through a daemon does"
    return (
        ("processes", _hidden, f"{hidden}: no table has them"),
        ("processes", _hung, f"{hung}: no table has them for that time"),
        ("process", _left_out, "were more than are sampled: ranks and workers came first"),
        ("process", _io_refused, f"{closed} /proc/PID/io: their I/O is not counted"),
        ("waits", _waits_refused, f"{closed} /proc/PID/syscall: what they waited for is unknown"),
        ("processes", _zombies, "ended and nobody collected them (zombies)"),
        ("cgroup", _outside, f"{outside}: the process table has them, the cgroup table does not"),
    )


def _line(
    store: StoreView, source: str, count: Callable[[NodeView], int | None], why: str
) -> Line | None:
    numbers: dict[str, int] = defaultdict(int)
    for name, view in sorted(store.nodes.items()):
        number = count(view)
        if number is not None and number > 0:
            numbers[name] += number
    total = sum(numbers.values())
    if not total:
        return None
    named = ", ".join(list(numbers)[:_MOST_NODES_NAMED])
    more = len(numbers) - _MOST_NODES_NAMED
    where = f"{named} and {more} more" if more > 0 else named
    who = "1 process" if total == 1 else f"{total} processes"
    return source, f"{who} on {where} {why}"


def _of_node(view: NodeView) -> list[Line]:
    return [line for line in (_emptiness(view), _by_environment(view), _in_pod(view)) if line]


def _emptiness(view: NodeView) -> Line | None:
    empty_s = _facts(view).get("group_empty_s")
    if not isinstance(empty_s, (int, float)) or not _EMPTY_FROM_S <= empty_s < 1e12:
        return None
    gpus = whole(mapping(view.meta.get("job")).get("gpus_on_node"))
    held = f" while it held {gpus} GPUs" if gpus else ""
    return f"node {view.node}", f"the job had no process here for {empty_s:.0f} s{held}"


def _by_environment(view: NodeView) -> Line | None:
    """Neither a control group nor scontrol said whose the processes are."""
    listed, found_by = mapping(_facts(view).get("listpids")), mapping(_facts(view).get("found_by"))
    if not listed.get("failures") or {"cgroup", "listpids"} & found_by.keys():
        return None
    why = str(listed.get("last_error") or "no answer")[:200]
    return "processes", f"told by their environment: no control group, and {why}"


def _in_pod(view: NodeView) -> Line | None:
    groups = mapping(mapping(sources_of(view).get("cgroup")).get("groups"))
    if not any("kubepods" in path for path in groups):
        return None
    why = (
        "slurmd runs in a Kubernetes pod: containers that the job starts through a daemon are seen "
        "only when their environment names the job (docker run -e SLURM_JOB_ID -e SLURM_PROCID)"
    )
    return "processes", why


def _hidden(view: NodeView) -> int | None:
    return whole(_facts(view).get("hidden"))


def _hung(view: NodeView) -> int | None:
    listed = _facts(view).get("hung")
    entries = listed if isinstance(listed, list) else []
    return sum(mapping(entry).get("of_job") is True for entry in entries)


def _left_out(view: NodeView) -> int | None:
    return whole(mapping(sources_of(view).get("process")).get("left_out"))


def _zombies(view: NodeView) -> int | None:
    return whole(_facts(view).get("zombies"))


def _outside(view: NodeView) -> int | None:
    return whole(mapping(_facts(view).get("found_by")).get("outside"))


def _io_refused(view: NodeView) -> int | None:
    return whole(mapping(sources_of(view).get("process")).get("io_refused"))


def _waits_refused(view: NodeView) -> int | None:
    return whole(mapping(sources_of(view).get("waits")).get("processes_refused"))


def _facts(view: NodeView) -> dict[str, Any]:
    return mapping(view.meta.get("processes"))
