"""Nodes as slurmctld knows them: read all at once, change one; every call with a time limit.

Not for a prolog's normal path. The text form of ``scontrol -o show node`` is the one that every
version from 22.05 prints; a line of 22.05 looks like::

    NodeName=t1 Arch=x86_64 ... State=IDLE+DRAIN ThreadsPerCore=1 ... Comment=free text Extra=x
    ... Reason=slurm_io: mounts: gone [root@2026-11-30T04:00:00]

How such a line is cut: :mod:`slurm_io.slurm.record_text`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from slurm_io.errors import SlurmError
from slurm_io.records import dataclass
from slurm_io.slurm.record_text import NODE, SIGNED, split_records
from slurm_io.slurm.tools import Limits, ask
from slurm_io.slurm.words import text_of

SCONTROL_TIMEOUT_S = 5.0
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
        return ask("scontrol", arguments, Limits(self._timeout_s)).stdout


def parse_nodes(text: str) -> tuple[NodeState, ...]:
    """All lines of ``scontrol -o show node``. Raises SlurmError for a line that names no node.

    A comment or reason of several lines is printed as it is, in the middle of its node's line.
    """
    return tuple(_node(fields, text) for fields in split_records(text, NODE))


def split_reason(reason: str) -> tuple[str, str | None, str | None]:
    """(text, user, time) of ``text [user@time]``; the last two None where it is not signed.

    A reason of several lines is signed behind its first.
    """
    found = SIGNED.search(reason)
    if found is None:
        return text_of(reason), None, None
    return text_of(f"{reason[: found.start()]}{reason[found.end() :]}"), found[1], found[2]


def _node(fields: dict[str, str], text: str) -> NodeState:
    if not fields.get("NodeName") or not fields.get("State"):
        raise SlurmError(f"scontrol show node: not a node's line: {text[:80]!a}")
    reason, _, signed = split_reason(fields.get("Reason", ""))
    return NodeState(
        name=fields["NodeName"],
        state=fields["State"].upper(),
        reason=reason,
        reason_at_s=_epoch_s(signed),
        comment=text_of(fields.get("Comment", "")),
        extra=text_of(fields.get("Extra", "")),
    )


def _epoch_s(text: str | None) -> int | None:
    if text is not None and text.isascii() and text.isdigit() and len(text) < 12:
        return int(text)
    return None
