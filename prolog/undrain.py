"""Give a node back that we drained: only ours, only when its check passes, and looked at again.

Slurm offers no "resume if the reason is still this one", and a resume wipes the reason: who drains
the node between our last look and the resume is overruled and leaves no trace. So that look comes
last, at this one node, and nothing but a comparison stands between (the start of one scontrol, some
milliseconds). Who drains it after the resume is seen by the look behind it, and said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slurm_io.model import CheckAnswer
from slurm_io.prolog.blast_radius import check_of_reason
from slurm_io.prolog.drain import clear_marks
from slurm_io.prolog.drain_site import Site
from slurm_io.prolog.node_memory import recall, remember
from slurm_io.slurm.node_state import HELD_BY_OTHERS, NodeState


def undrain(site: Site, answers: Mapping[str, CheckAnswer]) -> str:
    """Resume the node if all that holds it is a drain of ours whose check answers OK now.

    `answers` are this moment's, by check. Returns one line saying what was done or why nothing
    was. Raises SlurmError, HostError.
    """
    passed = [check for check, answer in answers.items() if answer == "OK"]
    memory = recall(site.config, site.node)
    own = site.nodes.read_one(site.node)  # from here to the update nothing else may come between
    if own is None:
        return f"nothing done: slurmctld knows no node {site.node}"
    why_not, undone = _why_not(own.flags, own.reason, answers, memory.reason), None
    if why_not is None:
        site.nodes.update(site.node, {"State": "RESUME"})
        undone = _undone(own, site.nodes.read_one(site.node))
    if passed and (memory.marks or why_not is None):
        clear_marks(site, passed)
    if why_not is not None:
        return f"nothing done: {why_not}"
    if undone is not None:
        site.log.write(f"resumed (was: {own.reason}), but {undone}")
        return f"{site.node} was resumed, but {undone}"
    remember(site.config, site.node, replace(recall(site.config, site.node), reason=""))
    site.log.write(f"undrained: {own.reason}")
    return f"{site.node} is back in service (was: {own.reason})"


def _undone(before: NodeState, after: NodeState | None) -> str | None:
    """What Slurm shows after the resume, when it is not a node in service."""
    if after is None:
        return "Slurm shows no such node any more"
    if "DRAIN" not in after.flags:
        return None
    if (after.reason, after.reason_at_s) == (before.reason, before.reason_at_s):
        return f"Slurm still shows {after.state}"
    return (
        f"somebody drained it again in that moment ({after.reason or 'no reason'}): that drain "
        "stays"
    )


def _why_not(
    flags: frozenset[str], reason: str, answers: Mapping[str, CheckAnswer], ours: str
) -> str | None:
    if "DRAIN" not in flags:
        return "the node is not drained"
    if held := sorted(flags & HELD_BY_OTHERS):
        return f"the node is {'+'.join(held)} as well"
    check = check_of_reason(reason)
    if check is None:
        return f"the drain is not ours ({reason or 'no reason given'})"
    if ours and reason != ours:
        return f"somebody added to our reason ({reason})"
    if answers.get(check) != "OK":
        return f"{check} answers {answers.get(check, 'nothing')} still"
    return None
