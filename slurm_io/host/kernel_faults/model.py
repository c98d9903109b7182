"""Events, findings, and what the reader of a log cares about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from slurm_io.model import CheckAnswer, FaultKind

Use = str
"""Whose a thing is: "job" (what this job stands on), "other" (of this node), "none" (of nobody)."""

_NOTHING: Mapping[str, Any] = {}
_NVME = re.compile(r"(nvme\d+)(?:c\d+)?(n\d+)?(?:p\d+)?")
_NVME_NAME = "nvme"
_LOOP = r"loop\d+(?:p\d+)?"


class Event(NamedTuple):
    """One message that says something. `what` is the family's own word for it, `subject` the
    device, server or target it is about. `at_s` as :class:`KernelLine` has it."""

    family: str
    what: str
    subject: str
    at_s: float | None
    message: str
    details: Mapping[str, Any] = _NOTHING


class Finding(NamedTuple):
    """What a family makes of its events about one subject, before any policy. `by_user`: any user
    can cause it, so that it is a note for the admins and no news for other users' jobs."""

    family: str
    subject: str
    answer: CheckAnswer
    kind: FaultKind
    text: str
    last_s: float | None = None
    facts: Mapping[str, Any] = _NOTHING
    by_user: bool = False


class View(NamedTuple):
    """What the reader of a log cares about; by default everything, and all of it is recent.

    `now_s` is on the log's clock. `devices` are the block devices of all layers below the job's
    mounts, `addresses` the PCI addresses of their drives, `servers` and `lustre` name the NFS
    servers and Lustre file systems that are mounted, and whether the job uses them. None = unknown,
    so that all matter. `user_devices` hold nothing but images of users. `healthy` are (family,
    subject) of what was looked at and is well now, whatever the log said of it before.
    """

    now_s: float | None = None
    window_s: float = 86400.0
    devices: frozenset[str] | None = None
    addresses: frozenset[str] | None = None
    servers: Mapping[str, Use] | None = None
    lustre: Mapping[str, Use] | None = None
    user_devices: frozenset[str] = frozenset()
    healthy: frozenset[tuple[str, str]] = frozenset()

    def age_s(self, at_s: float | None) -> float | None:
        """How long ago, never below 0; None when either time is unknown."""
        if self.now_s is None or at_s is None:
            return None
        return max(0.0, self.now_s - at_s)

    def is_recent(self, event: Event) -> bool:
        """Inside the window, or of unknown age."""
        age_s = self.age_s(event.at_s)
        return age_s is None or age_s <= self.window_s

    def device_use(self, device: str) -> Use:
        """Whether the job's data lie on a device; an NVMe controller stands for its namespaces."""
        if self.devices is None or device in self.devices:
            return "job"
        wanted = _nvme_controller(device)
        if wanted is None:
            return "other"
        if device == wanted:  # the controller itself
            return (
                "job" if any(_nvme_controller(each) == wanted for each in self.devices) else "other"
            )
        return "job" if disk_of(device) in map(disk_of, self.devices) else "other"

    def is_users_device(self, device: str) -> bool:
        """Whether a device is no part of the node: containers mount users' images, damaged ones
        too, through loop devices, and the kernel speaks of them as of any disk."""
        if self.device_use(device) == "job":
            return False
        return device in self.user_devices or re.fullmatch(_LOOP, device) is not None

    def is_healthy(self, family: str, subject: str) -> bool:
        """Whether a thing was seen to be well now."""
        return (family, subject) in self.healthy

    def address_use(self, address: str) -> Use:
        """Whether a drive below the job's data has this PCI address."""
        return "job" if self.addresses is None or address in self.addresses else "other"


Pattern = tuple[str, str, str]
"""What it says, words that are in every message of the kind, and the whole message's pattern."""


def match_first(patterns: tuple[Pattern, ...], message: str) -> tuple[str, re.Match[str]] | None:
    """The first pattern that fits the whole message, and what it says.

    Compiling a pattern costs a prolog half a millisecond, and most never fit: the words decide
    whether one is compiled at all.
    """
    for what, words, pattern in patterns:
        if words in message and (found := re.fullmatch(pattern, message)):
            return what, found
    return None


def disk_of(device: str) -> str:
    """The whole disk of a partition and the head of an NVMe path, by their names; else itself."""
    if found := _NVME.fullmatch(device):
        return found[1] + (found[2] or "")
    if found := re.fullmatch(r"((?:sd|hd|vd|xvd)[a-z]+)\d+", device):
        return found[1]
    return device


def softened(answer: CheckAnswer, use: Use) -> CheckAnswer:
    """A fault of something this job does not stand on is at most DEGRADED, and a small one OK."""
    if use == "job":
        return answer
    if use == "other":
        return "DEGRADED" if answer == "FAIL" else "OK"
    return "OK"


def _nvme_controller(device: str) -> str | None:
    found = _NVME.fullmatch(device) if device.startswith(_NVME_NAME) else None
    return found[1] if found else None
