"""Memory that lost data: uncorrected ECC errors and pages taken out of use."""

from __future__ import annotations

import re

from slurm_io.host.kernel_faults.model import Event, Finding, View

FAMILY = "memory"
STARTS = ("EDAC ", "Memory failure: 0x")

# Not just "UE .*": a process can call itself "EDAC MC0: 1 UE" and have the kernel speak of it.
_EDAC = r"EDAC (MC\d+): (\d+) UE (?:[a-zA-Z].* )?on \S.*"
_PAGE = r"Memory failure: 0x[0-9a-f]+: recovery action for .*: (?:Recovered|Failed|Delayed|Ignored)"


def parse(message: str, at_s: float | None) -> Event | None:
    """An uncorrected memory error; None for anything else (corrected ones included)."""
    if found := re.fullmatch(_EDAC, message):
        return Event(FAMILY, "uncorrected", found[1], at_s, message)
    if re.fullmatch(_PAGE, message):
        return Event(FAMILY, "page", "memory", at_s, message)
    return None


def judge(events: list[Event], view: View) -> list[Finding]:
    """One finding for all errors inside the window. DEGRADED: the kernel killed who held them."""
    recent = [event for event in events if view.is_recent(event)]
    if not recent:
        return []
    text = f"{len(recent)} uncorrected memory errors; have the DIMM replaced"
    facts = {"errors": len(recent)}
    return [Finding(FAMILY, "memory", "DEGRADED", "node", text, recent[-1].at_s, facts)]
