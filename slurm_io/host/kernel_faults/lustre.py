"""Lustre targets this client lost: evicted, disconnected, restored.

The last word per target counts. The console limits repeated messages ("Skipped 3 previous similar
messages"), so that a restored connection may go unsaid: a loss followed by such a line is at most
DEGRADED, and a target whose import is seen to be FULL now is connected. Devices of a server (no
16-digit instance in their name) and the configuration server (MGC) are left out. Words from
lustre/ptlrpc/{import,recover}.c of 2.10 to 2.17.
"""

from __future__ import annotations

from slurm_io.host.kernel_faults.model import Event, Finding, Pattern, View, match_first, softened
from slurm_io.model import CheckAnswer

FAMILY = "lustre"
STARTS = ("Lustre: ", "LustreError: ")
_MANY_EVICTIONS = 3  # one that is over is history; several are a bad link or a node that stalls

_TARGET = (
    r"(?:Lustre|LustreError: \d+-\d+|LustreError): "
    r"(([\w.-]{1,64})-(?:OST|MDT)[0-9a-f]{4})-\w+-[0-9a-f]{16}: "
)
_PATTERNS: tuple[Pattern, ...] = (
    ("restored", "Connection restored to", _TARGET + r"Connection restored to .*"),
    ("lost", " was lost; in progress", _TARGET
     + r"Connection to \S{0,80} \(at \S{1,80}\) was lost; in progress operations using .*"),
    ("evicted", "client was evicted by", _TARGET
     + r"This client was evicted by \S{1,80}; in progress operations using .*"),
    ("skipped", "previous similar", r"Lustre(?:Error)?: Skipped \d+ previous similar messages?"),
)  # fmt: skip


def parse(message: str, at_s: float | None) -> Event | None:
    """A Lustre client's console message about its connection to a target."""
    matched = match_first(_PATTERNS, message)
    if matched is None:
        return None
    what, found = matched
    if what == "skipped":
        return Event(FAMILY, what, "", at_s, message)
    return Event(FAMILY, what, found[1], at_s, message, {"file_system": found[2]})


def judge(events: list[Event], view: View) -> list[Finding]:
    """One finding for each file system with targets in trouble, or with trouble that is over."""
    last_skipped_s = max(
        (event.at_s for event in events if event.what == "skipped" and event.at_s is not None),
        default=None,
    )
    targets: dict[str, list[Event]] = {}
    for event in events:
        if event.what != "skipped":
            targets.setdefault(event.subject, []).append(event)
    systems: dict[str, dict[str, list[Event]]] = {}
    for target, of_target in targets.items():
        system = of_target[0].details["file_system"]
        systems.setdefault(system, {})[target] = of_target
    found = (_judge_system(name, each, last_skipped_s, view) for name, each in systems.items())
    return [finding for finding in found if finding is not None]


def _judge_system(
    name: str, targets: dict[str, list[Event]], skipped_s: float | None, view: View
) -> Finding | None:
    lost = sorted(
        target
        for target, events in targets.items()
        if events[-1].what != "restored" and not view.is_healthy(FAMILY, target)
    )
    events = sorted((e for each in targets.values() for e in each), key=lambda e: e.at_s or 0.0)
    evictions = sum(event.what == "evicted" and view.is_recent(event) for event in events)
    if not lost and not any(view.is_recent(event) for event in events):
        return None
    # The state of a target has no age: what was lost last week and never restored is lost.
    last_lost_s = max((targets[target][-1].at_s or 0.0 for target in lost), default=None)
    unsure = bool(lost) and skipped_s is not None and skipped_s >= (last_lost_s or 0.0)
    use = "job" if view.lustre is None else view.lustre.get(name, "none")
    return Finding(
        FAMILY,
        name,
        softened(_answer(lost, unsure, evictions), use),
        "shared",
        _text(name, lost, unsure, evictions),
        events[-1].at_s,
        {
            "file_system": name,
            "targets_lost": lost[:20],
            "targets_lost_count": len(lost),
            "evictions": evictions,
            "outage_s": _longest_outage_s(targets),
            "used_by_job": use == "job",
        },
    )


def _answer(lost: list[str], unsure: bool, evictions: int) -> CheckAnswer:
    if lost:
        return "DEGRADED" if unsure else "FAIL"
    return "DEGRADED" if evictions >= _MANY_EVICTIONS else "OK"


def _text(name: str, lost: list[str], unsure: bool, evictions: int) -> str:
    some = ", ".join(lost[:3]) + (", …" if len(lost) > 3 else "")
    if lost and unsure:
        return f"Lustre {name}: connection to {some} was lost; whether it is back the log left out"
    if lost:
        return f"Lustre {name}: no connection to {some}: reads there hang; see lfs check servers"
    if evictions:
        return f"Lustre {name}: this node was evicted {evictions} times and is connected again"
    return f"Lustre {name}: connections were lost for a while and are back"


def _longest_outage_s(targets: dict[str, list[Event]]) -> float | None:
    longest_s: float | None = None
    for events in targets.values():
        began_s: float | None = None
        for event in events:
            if event.what != "restored":
                began_s = event.at_s if began_s is None else began_s
            elif began_s is not None and event.at_s is not None:
                longest_s = max(longest_s or 0.0, round(event.at_s - began_s, 3))
                began_s = None
    return longest_s
