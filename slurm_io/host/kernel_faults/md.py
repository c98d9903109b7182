"""Software RAID: members lost and arrays that failed. Words from drivers/md/*.c of 4.18 to 6.18.

The state of an array now is in /proc/mdstat (check arrays); the log says when and which disk. An
array with redundancy that is whole again has nothing more to tell but read errors of its disks.
"""

from __future__ import annotations

from slurm_io.host.kernel_faults.model import Event, Finding, Pattern, View, match_first, softened

FAMILY = "md"
STARTS = ("md/", "md: ")

_ARRAY = r"(md[\w/-]{1,60})"
_DISK = r"([\w!/.-]{1,64})"
_RAID = r"md/raid\d*:" + _ARRAY + ": "
_PATTERNS: tuple[Pattern, ...] = (
    # raid0 and linear print no colon between the level and the array's name
    ("failed", " detected",
     r"md/(?:raid0|linear):?" + _ARRAY + ": Disk failure on " + _DISK + r" detected.*"),
    ("failed", "last device", _RAID + "Disk failure on " + _DISK + r", this is the last device\."),
    ("failed", "missing/failed", r"md: " + _ARRAY + r": \w+ array has a missing/failed member()"),
    ("failed", "Cannot continue", _RAID + r"Cannot continue operation .*()"),
    ("failed", "not enough", _RAID + r"not enough operational .*()"),
    ("lost member", "disabling", _RAID + "Disk failure on " + _DISK + r", disabling device\."),
    ("lost member", "non-fresh", r"md: kicking non-fresh ((" + _DISK + r")) from array!"),
    ("read error", "not correctable", _RAID + r"read error not correctable .*()"),
    ("read error", "unrecoverable", _RAID + _DISK + r": unrecoverable I/O read error .*"),
)  # fmt: skip


def parse(message: str, at_s: float | None) -> Event | None:
    """A message about a lost member or array; None for anything else."""
    matched = match_first(_PATTERNS, message)
    if matched is None:
        return None
    what, found = matched
    return Event(FAMILY, what, found[1], at_s, message, {"member": found[2] or None})


def judge(events: list[Event], view: View) -> list[Finding]:
    """One finding for each array with events inside the window."""
    arrays: dict[str, list[Event]] = {}
    for event in events:
        if view.is_recent(event):
            arrays.setdefault(event.subject, []).append(event)
    return [_judge_array(name, of_array, view) for name, of_array in arrays.items()]


def _judge_array(name: str, events: list[Event], view: View) -> Finding:
    what = [event.what for event in events]
    failed = "failed" in what
    members = sorted({str(e.details["member"]) for e in events if e.details["member"]})
    use = view.device_use(name)
    repaired = view.is_healthy(FAMILY, name) and "read error" not in what
    lost = ", ".join(members) or "a member"
    if repaired:
        text = f"RAID {name} lost {lost} and is whole again"
    elif failed:
        text = f"RAID {name} failed: it lost {lost}; replace the disk and rebuild"
    elif "lost member" in what:
        text = f"RAID {name} lost {lost} and goes on without; replace the disk"
    else:
        text = f"RAID {name} could not correct a read error; check its disks"
    return Finding(
        FAMILY,
        name,
        "OK" if repaired else softened("FAIL" if failed else "DEGRADED", use),
        "node",
        text,
        events[-1].at_s,
        {"array": name, "members": members, "failed": failed, "used_by_job": use == "job"},
    )
