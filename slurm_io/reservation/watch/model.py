"""Words of the watch: what one look shows, what speaks against a node, what should be done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from slurm_io.reservation.model import NodeSays, Pool, SpareState
from slurm_io.slurm.infos import NodeInfo

SignKind = Literal["down", "silent", "failed", "drained", "health"]


@dataclass(frozen=True)
class Sign:
    """One thing that speaks against a node.

    `is_fault`: it is the node's own failure. A drain whose reason tells of none (maintenance) is a
    sign too, but starts nothing.
    """

    node: str
    kind: SignKind
    text: str
    is_fault: bool = True


@dataclass(frozen=True)
class Look:
    """What one look saw. `spares` holds the judged state of each spare; `left` the nodes that a
    swap took out of the reservation; `lock_holder` who works on the reservation now, in words."""

    at_s: float
    pool: Pool
    says: Mapping[str, NodeSays] = field(default_factory=dict)
    spares: Mapping[str, SpareState] = field(default_factory=dict)
    left: Mapping[str, NodeInfo] = field(default_factory=dict)
    lock_holder: str | None = None


@dataclass(frozen=True)
class Tell:
    """A situation, said once while it lasts. `key` names it. `person`: somebody is needed, so the
    site's alert command hears of it too."""

    key: str
    text: str
    node: str | None = None
    person: bool = False
    event: str = "situation"


Work = Literal["swap", "add", "stage"]


@dataclass(frozen=True)
class Start:
    """Work for a process of its own: ``slurm-io`` with `arguments`. `since_s` is when the trouble
    began that it mends: the same trouble is worked on once."""

    work: Work
    node: str
    arguments: tuple[str, ...]
    text: str
    since_s: float = 0.0


@dataclass(frozen=True)
class Fill:
    """Give a ready spare its filler job."""

    node: str


@dataclass(frozen=True)
class StopFiller:
    """End a filler job that does harm, and give the node none for a day."""

    node: str
    job_id: str
    text: str


Wish = Tell | Start | Fill | StopFiller
