"""What is to be copied to which nodes, who can give it, and what came of it. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from slurm_io.records import dataclass, field

DonorKind = Literal["spare", "idle", "training"]


@dataclass(frozen=True)
class Wish:
    """As the command line has it. `sources`: ``peer``, node names, ``s3``, ``path`` or places,
    empty = the site's order. `reservation` None: the one whose nodes must hold this dataset."""

    name: str
    targets: tuple[str, ...]
    sources: tuple[str, ...] = ()
    reservation: str | None = None
    tier: str | None = None
    bandwidth: str | None = None
    delete_extra: bool = False
    config_path: str | None = None


@dataclass(frozen=True)
class Donor:
    """A node that holds the wanted version. `most_bytes_s`: what it may give, 0 = no limit."""

    node: str
    kind: DonorKind
    host: str
    most_bytes_s: int = 0


@dataclass(frozen=True)
class Target:
    """A node to copy to. `bytes_behind` None: it could not be told."""

    node: str
    host: str
    bytes_behind: int | None = None


@dataclass(frozen=True)
class NodesPlan:
    """What a staging would do. `place`: where targets copy from when not from `donors` (None = the
    site's own choice on the target). `excluded`: nodes that were asked for or asked, and why they
    take no part."""

    name: str
    content_id: str
    reservation: str
    targets: tuple[Target, ...]
    donors: tuple[Donor, ...]
    places: tuple[str, ...] = ()
    excluded: Mapping[str, str] = field(default_factory=dict)
    ready: tuple[str, ...] = ()
    rate_bytes_s: float | None = None
    eta_s: float | None = None
    problem: str | None = None

    @property
    def exit_code(self) -> int:
        """Of ``--dry-run``: 0 nothing to do, 1 something to do, 3 it cannot be done."""
        if self.problem is not None:
            return 3
        return 1 if self.targets else 0


@dataclass(frozen=True)
class NodeAnswer:
    """What came of one target. `rc` is the stage's exit code there, None = it did not end by
    itself; `answer` is its StageAnswer as JSON."""

    node: str
    rc: int | None
    text: str
    sources: tuple[str, ...] = ()
    answer: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class StagedNodes:
    """What came of all."""

    plan: NodesPlan
    nodes: tuple[NodeAnswer, ...]

    @property
    def exit_code(self) -> int:
        """0 every target is ready, 1 one is whole with extra files beside it, 3 one is not done."""
        if self.plan.problem is not None:
            return 3
        codes = {0 if node.rc == 0 else 1 if node.rc == 1 else 3 for node in self.nodes}
        return max(codes, default=0)
