"""PCIe links of NVMe drives and GPUs: as wide and as fast as card and slot allow.

What it checks: for each NVMe drive its link's width and speed, for each GPU its width, against the
lesser of what the device and the port above it can do, or against what the admin expects.

Why it matters: a drive that trained at x2 or generation 1 works, and halves a RAID 0 or worse;
nothing else complains.

Needs: /sys/bus/pci. No tool is run.

Answers: OK. DEGRADED: a link is narrower or slower than it could be, or down. Never FAIL: the node
works. UNKNOWN: no link of any device could be read, as in most virtual machines.

What to do: reseat the card or its cable, look for corrected bus errors (check kernel_log), update
the firmware; ``lspci -vv -s ADDRESS`` shows LnkCap and LnkSta.

Known false alarms: none known for width. A GPU's speed drops at rest and is not looked at. Behind a
switch the narrowest port counts, of which only the nearest is seen.

Settings: expected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurm_io.config import Setting, _key, read_section
from slurm_io.errors import ConfigError
from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import CHECKS, CheckContext, check
from slurm_io.records import dataclass

if TYPE_CHECKING:
    from slurm_io.host.pcie import Link

_LABEL = "check.pcie_links"
_SUBJECTS = ("nvme", "gpu")
_SPEEDS = (2.5, 5.0, 8.0, 16.0, 32.0, 64.0)
_WIDTHS = (1, 2, 4, 8, 12, 16, 32)
_MOST_RESULTS = 16


@dataclass(frozen=True)
class Settings:
    """[check.pcie_links]: its own keys."""

    expected: tuple[str, ...] = _key(
        (),
        Setting(
            'what is normal here, each "nvme width=4 speed=16", "gpu width=16" or '
            '"0000:41:00.0 width=2"; speed in GT/s',
            "card and slot tell, unless the board is odd",
        ),
    )


@dataclass(frozen=True)
class _Expected:
    subject: str
    width: int | None = None
    speed_gts: float | None = None


@CHECKS.register("pcie_links")
@check(
    kind="node",
    scope="node",
    identity="root",
    policy="warn",
    needs=("slurm_io.host.pcie",),
)
def pcie_links(context: CheckContext) -> list[CheckResult]:
    """One result for each link below its worth, or one OK; [] without NVMe drives and GPUs."""
    from slurm_io.host.pcie import read_links

    settings = read_section(Settings, context.own, "configuration", _LABEL)
    expected = [_parse(line) for line in settings.expected]
    links = read_links(context.sys_root)
    if not links:
        return []
    poor = [(link, words) for link in links if (words := _shortfalls(link, expected))]
    if poor:
        return [_degraded(link, words) for link, words in poor[:_MOST_RESULTS]]
    unread = [link for link in links if link.width is None]
    if len(unread) == len(links):
        text = f"links of {len(links)} devices could not be read: a virtual machine shows none"
        return [CheckResult("pcie_links", "UNKNOWN", "node", text)]
    return [_all_well(links, unread)]


def _shortfalls(link: Link, expected: list[_Expected]) -> list[str]:
    """What a link lacks, in words; [] when it is as good as it can be, or unknown."""
    if link.link_down:
        return ["is down"]
    wanted = _wanted(link, expected)
    width = wanted.width or link.width_max
    found = []
    if link.width is not None and width is not None and link.width < width:
        found.append(f"runs x{link.width}, could x{width}")
    speed_gts = wanted.speed_gts or (link.speed_max_gts if link.kind == "nvme" else None)
    if link.speed_gts is not None and speed_gts is not None and link.speed_gts < speed_gts:
        found.append(f"runs at {link.speed_gts:g} GT/s, could at {speed_gts:g}")
    return found


def _wanted(link: Link, expected: list[_Expected]) -> _Expected:
    """The admin's line for this very device, else for its kind, else nothing."""
    for subject in (link.address, link.name, link.kind):
        for each in expected:
            if each.subject == subject:
                return each
    return _Expected(link.address)


def _degraded(link: Link, words: list[str]) -> CheckResult:
    text = f"PCIe link of {link.kind} {link.name} {' and '.join(words)}; reseat card and cable"
    commands = (f"lspci -vv -s {link.address}",)
    return CheckResult(
        "pcie_links", "DEGRADED", "node", text, link.name, _facts(link), commands=commands
    )


def _all_well(links: tuple[Link, ...], unread: list[Link]) -> CheckResult:
    count = len(links) - len(unread)
    text = f"{count} PCIe links are as wide and fast as they can be"
    facts: dict[str, Any] = {
        "nvme": sum(link.kind == "nvme" for link in links),
        "gpu": sum(link.kind == "gpu" for link in links),
    }
    left_out = tuple(f"{link.kind} {link.name}: no link width in /sys" for link in unread[:8])
    return CheckResult("pcie_links", "OK", "node", text, None, facts, left_out)


def _facts(link: Link) -> dict[str, Any]:
    return {
        "address": link.address,
        "width": link.width,
        "width_max": link.width_max,
        "speed_gts": link.speed_gts,
        "speed_max_gts": link.speed_max_gts,
    }


def _parse(line: str) -> _Expected:
    label = f"configuration: {_LABEL}.expected"
    words = line.split()
    if not words or not (words[0] in _SUBJECTS or words[0].startswith("nvme") or ":" in words[0]):
        raise ConfigError(f"{label}: {line!a} must begin with nvme, gpu, a drive or an address")
    values: dict[str, float] = {}
    for word in words[1:]:
        key, _, value = word.partition("=")
        allowed = {"width": _WIDTHS, "speed": _SPEEDS}.get(key)
        number = _number(value)
        if allowed is None or number not in allowed or key in values:
            raise ConfigError(f"{label}: {word!a}: write width=4 or speed=16, each once")
        values[key] = number
    width = values.get("width")
    return _Expected(words[0], None if width is None else int(width), values.get("speed"))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0
