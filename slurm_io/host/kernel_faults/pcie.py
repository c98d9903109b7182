"""PCIe: errors a port reported and slots that lost their card. Words from drivers/pci.

Corrected errors come by the thousand on good machines; only many of them are a sign. An error
counts for the job when it is reported of a drive below its data.
"""

from __future__ import annotations

import re

from slurm_io.host.kernel_faults.model import Event, Finding, View, softened
from slurm_io.model import CheckAnswer

FAMILY = "pcie"
STARTS = ("pcieport ", "nvme 0", "nvme 1", "pciehp ", "nvidia 0", "nvidia 1")
_MANY_CORRECTED = 100

_ADDRESS = r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_ERROR = (
    r"[\w-]{1,32} " + _ADDRESS + r": (?:AER: )?(?:PCIe|CXL) Bus Error: severity="
    r"(Corrected|Correctable|Uncorrect(?:ed|able) \((?:Non-)?Fatal\)), type=.*"
)
_LINK = r"pcieport " + _ADDRESS + r": pciehp: Slot\(([\w-]{1,16})\): (Link Down|Card not present)"


def parse(message: str, at_s: float | None) -> Event | None:
    """An error or a lost link; None for anything else."""
    if " Bus Error: " in message and (found := re.fullmatch(_ERROR, message)):
        return Event(FAMILY, _severity(found[2]), found[1], at_s, message)
    if "pciehp: " in message and (found := re.fullmatch(_LINK, message)):
        return Event(FAMILY, "link down", found[1], at_s, message, {"slot": found[2]})
    return None


def judge(events: list[Event], view: View) -> list[Finding]:
    """One finding for each device with more than a few corrected errors inside the window."""
    devices: dict[str, list[Event]] = {}
    for event in events:
        if view.is_recent(event):
            devices.setdefault(event.subject, []).append(event)
    found = (_judge_device(address, each, view) for address, each in devices.items())
    return [finding for finding in found if finding is not None]


def _judge_device(address: str, events: list[Event], view: View) -> Finding | None:
    what = [event.what for event in events]
    answer, text = _verdict(address, what)
    if answer == "OK":
        return None
    use = view.address_use(address)
    # What port and which slot a drive hangs on is not known here: a lost link is a sign.
    weight = answer if "link down" in what and "fatal" not in what else softened(answer, use)
    facts = {
        "address": address,
        "fatal": what.count("fatal"),
        "uncorrected": what.count("non-fatal"),
        "corrected": what.count("corrected"),
        "link_down": what.count("link down"),
        "used_by_job": use == "job",
    }
    return Finding(FAMILY, address, weight, "node", text, events[-1].at_s, facts)


def _verdict(address: str, what: list[str]) -> tuple[CheckAnswer, str]:
    if "fatal" in what:
        return "FAIL", f"PCIe device {address}: fatal bus errors; reseat or replace it"
    if "link down" in what:
        return "DEGRADED", f"PCIe port {address} lost the link to its card; reseat or replace it"
    if "non-fatal" in what:
        return "DEGRADED", f"PCIe device {address}: uncorrected bus errors; watch it"
    if len(what) >= _MANY_CORRECTED:
        return "DEGRADED", f"PCIe device {address}: {len(what)} corrected bus errors; bad contact?"
    return "OK", ""


def _severity(word: str) -> str:
    if word.startswith("Correct"):
        return "corrected"
    return "non-fatal" if "Non-Fatal" in word else "fatal"
