"""NVIDIA Xid: a GPU that fell off the bus, and errors that ask for a repair.

Most Xids are the program's own doing (13, 31, 43, 45 and others): no fault of the node, and any
user can cause them, so they are left out. Numbers from NVIDIA's Xid catalogue.
"""

from __future__ import annotations

import re

from slurm_io.host.kernel_faults.model import Event, Finding, View

FAMILY = "gpu"
STARTS = ("NVRM: Xid (",)
_LOST = 79
_REPAIR = {
    48: "double-bit ECC error", 63: "row remapping pending", 64: "row remapping failed",
    74: "NVLink error", 92: "many single-bit ECC errors", 94: "contained ECC error",
    95: "uncontained ECC error", 119: "GSP does not answer", 120: "GSP error",
}  # fmt: skip

_XID = r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{4,20})\): (\d+), .*"


def parse(message: str, at_s: float | None) -> Event | None:
    """An Xid that is the GPU's own; None for anything else."""
    found = re.fullmatch(_XID, message)
    number = int(found[2]) if found else 0
    if found is None or (number != _LOST and number not in _REPAIR):
        return None
    return Event(FAMILY, "xid", found[1], at_s, message, {"xid": number})


def judge(events: list[Event], view: View) -> list[Finding]:
    """One finding for each GPU. A GPU off the bus stays so until the node starts anew."""
    gpus: dict[str, list[Event]] = {}
    for event in events:
        if event.details["xid"] == _LOST or view.is_recent(event):
            gpus.setdefault(event.subject, []).append(event)
    return [_judge_gpu(address, each) for address, each in gpus.items()]


def _judge_gpu(address: str, events: list[Event]) -> Finding:
    numbers = sorted({event.details["xid"] for event in events})
    lost = _LOST in numbers
    text = (
        f"GPU {address} fell off the bus (Xid 79); restart this node, reseat or replace the GPU"
        if lost
        else f"GPU {address}: {', '.join(_REPAIR[n] for n in numbers)}; see NVIDIA's Xid catalogue"
    )
    facts = {"address": address, "xids": numbers}
    return Finding(
        FAMILY, address, "FAIL" if lost else "DEGRADED", "node", text, events[-1].at_s, facts
    )
