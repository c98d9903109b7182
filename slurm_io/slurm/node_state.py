"""Nodes as slurmctld knows them: read all at once, change one; every call with a time limit.

Not for a prolog's normal path. The text form of ``scontrol -o show node`` is the one that every
version from 22.05 prints; a line of 22.05 looks like::

    NodeName=t1 Arch=x86_64 ... State=IDLE+DRAIN ThreadsPerCore=1 ... Comment=free text Extra=x
    ... Reason=slurm_io: mounts: gone [root@2026-11-30T04:00:00]

Values may hold blanks, so a line is cut at the keys known to head a value, not at blanks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from slurm_io.errors import HostError, SlurmError
from slurm_io.host.run import find_tool, run

SCONTROL_TIMEOUT_S = 5.0
_KEY = re.compile(r"(?:^| )([A-Z][A-Za-z]{1,31})=")
_SIGNED = re.compile(r" \[[^\[\]@]{1,64}@([^\[\]]{1,32})\]$")
# Keys behind a free text that this project reads; anything else in it belongs to the text.
_BEHIND_TEXT = frozenset({"Comment", "Extra", "Reason", "ReservationName", "InstanceId",
                          "InstanceType", "CapWatts", "CurrentWatts", "CfgTRES", "AllocTRES",
                          "LastBusyTime", "ResumeAfterTime", "ExtSensorsJoules"})  # fmt: skip
_FREE_TEXT = frozenset({"OS", "Comment", "Extra", "Reason"})
_EMPTY = frozenset({"(null)", "None", "N/A", "n/a"})
HELD_BY_OTHERS = frozenset(
    {"DOWN", "FAIL", "FAILING", "MAINT", "REBOOT", "REBOOT_ISSUED", "REBOOT_REQUESTED",
     "POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "NOT_RESPONDING", "UNKNOWN", "FUTURE"}
)  # fmt: skip
"""Flags of a node that is out of service for more than a drain."""


@dataclass(frozen=True)
class NodeState:
    """One node. `state` is upper case with flags, e.g. ``IDLE+DRAIN``; texts are "" where unset.

    `reason_at_s` is when the reason was set (epoch s); None when it is not said or not readable.
    """

    name: str
    state: str
    reason: str = ""
    reason_at_s: int | None = None
    comment: str = ""
    extra: str = ""

    @property
    def flags(self) -> frozenset[str]:
        """The words of `state`, without the marks of a node that does not answer."""
        return frozenset(self.state.rstrip("*~#!%$@^-").split("+"))


class Nodes(Protocol):
    """slurmctld's node table."""

    def read(self) -> tuple[NodeState, ...]:
        """All nodes. Raises SlurmError."""

    def read_one(self, node: str) -> NodeState | None:
        """One node, as soon as it can be had; None when there is none. Raises SlurmError."""

    def update(self, node: str, values: Mapping[str, str]) -> None:
        """Set fields of one node, e.g. ``{"State": "RESUME"}``. Raises SlurmError."""


class ScontrolNodes:
    """:class:`Nodes` by the scontrol command."""

    def __init__(self, timeout_s: float = SCONTROL_TIMEOUT_S) -> None:
        self._timeout_s = timeout_s

    def read(self) -> tuple[NodeState, ...]:
        """``scontrol -o show node``."""
        return parse_nodes(self._scontrol("-o", "show", "node"))

    def read_one(self, node: str) -> NodeState | None:
        """``scontrol -o show node NODE``."""
        shown = parse_nodes(self._scontrol("-o", "show", "node", node))
        return next((each for each in shown if each.name == node), None)

    def update(self, node: str, values: Mapping[str, str]) -> None:
        """``scontrol update NodeName=…``."""
        self._scontrol("update", f"NodeName={node}", *(f"{k}={v}" for k, v in values.items()))

    def _scontrol(self, *arguments: str) -> str:
        path = find_tool("scontrol")
        if path is None:
            raise SlurmError("scontrol is not installed on this node")
        kept = {name: os.environ[name] for name in ("SLURM_CONF",) if name in os.environ}
        try:
            finished = run(
                [path, *arguments],
                self._timeout_s,
                extra_environment={**kept, "SLURM_TIME_FORMAT": "%s"},
                check=True,
            )
        except HostError as error:
            raise SlurmError(str(error)) from error
        if finished.cut:
            raise SlurmError("scontrol: its answer is too long to be read")
        return finished.stdout


def parse_nodes(text: str) -> tuple[NodeState, ...]:
    """All lines of ``scontrol -o show node``. Raises SlurmError for a line that names no node.

    A comment or reason of several lines is printed as it is, in the middle of its node's line.
    """
    return tuple(_node(line) for line in _whole_lines(text))


def _whole_lines(text: str) -> list[str]:
    """One line a node: what does not begin with a node's name goes on with the line before it."""
    whole: list[str] = []
    for line in filter(str.strip, text.split("\n")):
        if whole and not line.startswith("NodeName="):
            whole[-1] = f"{whole[-1]} {line.strip()}"
        else:
            whole.append(line)
    return whole


def _node(line: str) -> NodeState:
    fields = _fields(line.strip())
    if not fields.get("NodeName") or not fields.get("State"):
        raise SlurmError(f"scontrol show node: not a node's line: {line[:80]!a}")
    reason, signed = fields.get("Reason", ""), None
    if found := _SIGNED.search(reason):
        reason, signed = reason[: found.start()], found[1]
    return NodeState(
        name=fields["NodeName"],
        state=fields["State"].upper(),
        reason=_text(reason),
        reason_at_s=_epoch_s(signed),
        comment=_text(fields.get("Comment", "")),
        extra=_text(fields.get("Extra", "")),
    )


def _fields(line: str) -> dict[str, str]:
    """Key -> value; of a key that comes twice the first counts, a free text cannot replace it."""
    cuts: list[re.Match[str]] = []
    for found in _KEY.finditer(line):
        inside_text = cuts and cuts[-1][1] in _FREE_TEXT - {"OS"}
        if not inside_text or found[1] in _BEHIND_TEXT:
            cuts.append(found)
    ends = [*(each.start() for each in cuts[1:]), len(line)][: len(cuts)]
    fields: dict[str, str] = {}
    for found, end in zip(cuts, ends, strict=True):
        fields.setdefault(found[1], line[found.end() : end].strip())
    return fields


def _text(value: str) -> str:
    return "" if value in _EMPTY else value


def _epoch_s(text: str | None) -> int | None:
    if text is not None and text.isascii() and text.isdigit() and len(text) < 12:
        return int(text)
    return None
