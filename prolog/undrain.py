"""Give a node back that we drained: only ours, only when its check passes, and looked at again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slurm_io.model import CheckAnswer
from slurm_io.prolog.blast_radius import check_of_reason
from slurm_io.prolog.drain import Site, clear_marks
from slurm_io.prolog.node_memory import recall, remember

_KEEP_OUT = frozenset(
    {"DOWN", "FAIL", "FAILING", "MAINT", "REBOOT", "REBOOT_ISSUED", "REBOOT_REQUESTED",
     "POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "NOT_RESPONDING", "UNKNOWN", "FUTURE"}
)  # fmt: skip


def undrain(site: Site, answers: Mapping[str, CheckAnswer]) -> str:
    """Resume the node if all that holds it is a drain of ours whose check answers OK now.

    `answers` are this moment's, by check. Returns one line saying what was done or why nothing
    was. Raises SlurmError, HostError.
    """
    passed = [check for check, answer in answers.items() if answer == "OK"]
    own = next((each for each in site.nodes.read() if each.name == site.node), None)
    if own is None:
        return f"nothing done: slurmctld knows no node {site.node}"
    why_not = _why_not(own.flags, own.reason, answers, recall(site.config, site.node).reason)
    if why_not is None:
        site.nodes.update(site.node, {"State": "RESUME"})
        after = next((each for each in site.nodes.read() if each.name == site.node), None)
        if after is None or "DRAIN" in after.flags:
            why_not = f"resumed, but Slurm still shows {after.state if after else 'no such node'}"
    if passed and (recall(site.config, site.node).marks or why_not is None):
        clear_marks(site, passed)
    if why_not is not None:
        return f"nothing done: {why_not}"
    remember(site.config, site.node, replace(recall(site.config, site.node), reason=""))
    site.log.write(f"undrained: {own.reason}")
    return f"{site.node} is back in service (was: {own.reason})"


def _why_not(
    flags: frozenset[str], reason: str, answers: Mapping[str, CheckAnswer], ours: str
) -> str | None:
    if "DRAIN" not in flags:
        return "the node is not drained"
    if held := sorted(flags & _KEEP_OUT):
        return f"the node is {'+'.join(held)} as well"
    check = check_of_reason(reason)
    if check is None:
        return f"the drain is not ours ({reason or 'no reason given'})"
    if ours and reason != ours:
        return f"somebody added to our reason ({reason})"
    if answers.get(check) != "OK":
        return f"{check} answers {answers.get(check, 'nothing')} still"
    return None
