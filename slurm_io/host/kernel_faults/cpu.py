"""Processors and tasks that do not move: lockups, RCU stalls, tasks asleep in the kernel.

A lockup is this node's own fault even when the function it is stuck in belongs to NFS. A lockup
that ended long ago, RCU stalls and hung tasks are signs, not proofs: a virtual machine whose host
is busy prints them too, a user's load or FUSE mount brings them about, and tasks hang wherever a
server does.
"""

from __future__ import annotations

from slurm_io.host.kernel_faults.model import Event, Finding, Pattern, View, match_first
from slurm_io.model import CheckAnswer

FAMILY = "cpu"
STARTS = (
    "watchdog: ", "NMI watchdog: ", "BUG: soft lockup", "rcu: INFO: rcu_", "INFO: rcu_",
    "INFO: task ", "RIP: ",
)  # fmt: skip
_LOCKUP_STATE_S = 3600.0
_HARD_S = 10  # the watchdog's default threshold

_SOFT = r"(?:(?:NMI )?watchdog: )?BUG: soft lockup - CPU#(\d+) stuck for (\d+)s! \[(.{1,64})\]"
_HARD = r"(?:NMI )?watchdog: Watchdog detected hard LOCKUP on cpu (\d+).*"
_STALL = r"(?:rcu: )?INFO: rcu_\w+ (?:detected stalls on CPUs/tasks:|self-detected stall on CPU).*"
_HUNG = r"INFO: task (.{1,64}):(\d+) blocked for more than (\d+) seconds\."
_AT = r"RIP: [0-9a-f]{4}:([\w.]{1,128})\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[(\w{1,64})\])?"

_PATTERNS: tuple[Pattern, ...] = (
    ("soft lockup", "soft lockup", _SOFT),
    ("hard lockup", "hard LOCKUP", _HARD),
    ("at", "RIP: ", _AT),
    ("stall", "INFO: rcu_", _STALL),
    ("hung task", "blocked for more than", _HUNG),
)


def parse(message: str, at_s: float | None) -> Event | None:
    """A message about a stuck processor or task; None for anything else."""
    matched = match_first(_PATTERNS, message)
    if matched is None:
        return None
    what, found = matched
    if what == "soft lockup":
        details: dict[str, object] = {"stuck_s": int(found[2])}
        return Event(FAMILY, "lockup", f"CPU {found[1]}", at_s, message, details)
    if what == "hard lockup":
        return Event(FAMILY, "lockup", f"CPU {found[1]}", at_s, message, {"stuck_s": _HARD_S})
    if what == "at":
        details = {"function": found[1], "module": found[2]}
        return Event(FAMILY, what, "", at_s, message, details)
    return Event(FAMILY, what, found[2] if what == "hung task" else "", at_s, message)


def judge(events: list[Event], view: View) -> list[Finding]:
    """At most one finding for lockups, one for stalls and one for tasks asleep."""
    recent = [event for event in events if view.is_recent(event)]
    found = (_lockups(recent, view), _stalls(recent), _hung_tasks(recent, view))
    return [finding for finding in found if finding is not None]


def _lockups(events: list[Event], view: View) -> Finding | None:
    lockups = [event for event in events if event.what == "lockup"]
    if not lockups:
        return None
    cpus = sorted({event.subject for event in lockups})
    last = lockups[-1]
    age_s = view.age_s(last.at_s)
    is_over = age_s is not None and age_s > _LOCKUP_STATE_S
    where = _stuck_in(events)
    inside = f" in {where}" if where else ""
    return Finding(
        FAMILY,
        cpus[0],
        "DEGRADED" if is_over else "FAIL",
        "node",
        f"{', '.join(cpus[:4])} {'was' if is_over else 'is'} stuck{inside}; "
        + ("watch this node" if is_over else "drain and restart this node"),
        last.at_s,
        {
            "cpus": len(cpus),
            "stuck_s": max(event.details["stuck_s"] for event in lockups),
            "stuck_in": where,
        },
        by_user=is_over,
    )


def _stuck_in(events: list[Event]) -> str | None:
    """Function and module of the first instruction pointer printed after a lockup."""
    locked = False
    for event in events:
        if event.what == "lockup":
            locked = True
        elif event.what == "at" and locked:
            module = event.details["module"]
            return str(event.details["function"]) + (f" [{module}]" if module else "")
    return None


def _stalls(events: list[Event]) -> Finding | None:
    stalls = [event for event in events if event.what == "stall"]
    if not stalls:
        return None
    text = f"{len(stalls)} RCU stalls: processors did not move for 20 s or more; watch this node"
    facts = {"stalls": len(stalls)}
    return Finding(FAMILY, "rcu", "DEGRADED", "node", text, stalls[-1].at_s, facts, by_user=True)


def _hung_tasks(events: list[Event], view: View) -> Finding | None:
    hung = [event for event in events if event.what == "hung task"]
    if not hung:
        return None
    tasks = {event.subject for event in hung}
    asleep = {task for task in tasks if not view.is_healthy(FAMILY, task)}
    answer: CheckAnswer = "DEGRADED" if asleep else "OK"
    text = f"{len(tasks)} tasks slept in the kernel for minutes, as on storage that does not answer"
    facts = {"tasks": len(tasks), "asleep_now": len(asleep)}
    return Finding(
        FAMILY,
        "tasks",
        answer,
        "node",
        text if asleep else f"{text}; none of them does so now",
        hung[-1].at_s,
        facts,
        by_user=True,
    )
