"""Judges one software RAID array by what mdstat and /sys say of it."""

from __future__ import annotations

from typing import NamedTuple

from slurm_io.filesystems.md_arrays import Array, Member
from slurm_io.model import CheckAnswer

_BEARS = {"raid4": 1, "raid5": 1, "raid6": 2}
_WORST_FIRST: tuple[CheckAnswer, ...] = ("FAIL", "DEGRADED", "UNKNOWN")
_SLOWER = {
    "resync": "copies are being made equal",
    "recovery": "a member is being rebuilt",
    "reshape": "it is being reshaped",
    "check": "it is being checked",
    "repair": "it is being repaired",
}


class Problem(NamedTuple):
    """One thing wrong with an array, in words that follow its name."""

    answer: CheckAnswer
    text: str


def problems_of(array: Array) -> list[Problem]:
    """What is wrong with an array, worst first; [] when it is whole and at rest."""
    if array.container:
        return []  # it holds other arrays' metadata, inactive by nature
    found = (_state(array), _members(array), _thrown_out(array), _activity(array))
    return sorted(
        (problem for problem in found if problem is not None),
        key=lambda problem: _WORST_FIRST.index(problem.answer),
    )


def bears(array: Array) -> int | None:
    """How many members may be missing without loss of data; None: it depends on which (raid10)."""
    if array.level == "raid1":
        return max(0, (array.wanted or 2) - 1)
    return _BEARS.get(array.level or "", None if array.level == "raid10" else 0)


def _state(array: Array) -> Problem | None:
    if array.state == "inactive" or array.array_state == "inactive":
        return Problem("FAIL", "is inactive: it was not assembled; see mdadm --assemble --scan")
    if array.state == "broken" or array.array_state == "broken":
        return Problem("FAIL", f"is broken{_named(_lost(array))}; replace the drive")
    if array.array_state == "suspended":
        return Problem("FAIL", "is suspended: reads and writes wait")
    if array.level is None:
        return Problem("UNKNOWN", "has a level that could not be read")
    return None


def _members(array: Array) -> Problem | None:
    lost = _lost(array)
    short = max(array.missing(), sum(member.present is False for member in array.data_members()))
    if array.state == "inactive" or array.level is None or short == 0:
        return None
    wanted = array.wanted or len(array.members)
    text = f"lacks {short} of {wanted} members{_named(lost)}"
    may_lack = bears(array)
    if may_lack is not None and short > may_lack:
        return Problem("FAIL", f"{text}, more than {array.level} bears; replace the drives")
    return Problem("DEGRADED", f"{text}; replace the drive")


def _thrown_out(array: Array) -> Problem | None:
    """Failed members, also where a spare has taken their place and the array is whole again."""
    failed = array.failed_members()
    if not failed:
        return None
    answer: CheckAnswer = "DEGRADED" if array.has_redundancy() else "FAIL"
    return Problem(answer, f"has thrown out{_named(failed)}; replace the drive")


def _activity(array: Array) -> Problem | None:
    if not array.action or (array.waiting and array.read_only):
        return None  # a resync that waits for the first write slows nobody down
    words = _SLOWER[array.action]
    if array.waiting:
        return Problem("DEGRADED", f"waits for its {array.action}")
    done = f"{array.done_share or 0.0:.1%}"
    left = f", {array.finish_min:.0f} min to go" if array.finish_min is not None else ""
    return Problem("DEGRADED", f"reads slower: {words} ({done}{left})")


def _lost(array: Array) -> tuple[Member, ...]:
    return tuple(member for member in array.members if member.failed or member.present is False)


def _named(members: tuple[Member, ...]) -> str:
    if not members:
        return ""
    names = (
        f"{member.name} (serial {member.serial})" if member.serial else member.name
        for member in members[:8]
    )
    return ": " + ", ".join(names)
