"""What speaks against a node: Slurm's state of it, and what it says of its own health.

Slurm calls a node DOWN only after SlurmdTimeout (300 s by default). NOT_RESPONDING comes with the
first ping that got no answer, a third of that time earlier or more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from slurm_io.reservation.watch.model import Sign
from slurm_io.slurm.infos import NodeInfo

NEEDED_FAILS = 2
"""A health check has FAILed in so many answers, one after the other, before it counts."""
_ON_PURPOSE = frozenset(
    {"MAINT", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "REBOOT", "REBOOT_ISSUED"}
    | {"REBOOT_REQUESTED", "REBOOT_ASAP", "PLANNED_REBOOT"}
)
# Reasons with which Slurm itself, our checks or a health check takes a node out for its own fault.
_FAULT = re.compile(
    r"slurm_io: (?!drill)|NHC:|\[node_problem\]|Not responding|Prolog error|Epilog error|"
    r"Kill task failed|Low (RealMemory|TmpDisk|socket)|gres/|Node unexpectedly rebooted|"
    r"batch job complete failure|Duplicate jobid|Action:Re(boot|place)",
    re.IGNORECASE,
)


def sign_of(node: NodeInfo, fails: Mapping[str, str]) -> Sign | None:
    """The strongest sign against a node; None = it looks well.

    Args:
        fails: checks that FAILed often enough, with what they said.
    """
    reason = node.reason.text if node.reason is not None else ""
    why = f" ({reason[:200]})" if reason else ""
    if not _ON_PURPOSE.isdisjoint(node.flags):
        flags = "+".join(flag for flag in node.flags if flag in _ON_PURPOSE)
        return Sign(node.name, "drained", f"Slurm says {flags}{why}", is_fault=False)
    if node.base in ("DOWN", "ERROR", "UNKNOWN"):
        return Sign(node.name, "down", f"Slurm says {node.base}{why}")
    if not node.is_responding:
        return Sign(node.name, "silent", f"its slurmd does not answer Slurm's pings{why}")
    if node.base == "FAIL" or not {"FAIL", "FAILING"}.isdisjoint(node.flags):
        return Sign(node.name, "failed", f"Slurm says FAIL{why}")
    if fails:
        told = "; ".join(f"{check}: {text[:120]}" for check, text in sorted(fails.items())[:3])
        return Sign(node.name, "health", f"{NEEDED_FAILS} answers in a row: FAIL {told}")
    if node.is_drained:
        return Sign(node.name, "drained", f"drained{why}", bool(_FAULT.match(reason)))
    return None
