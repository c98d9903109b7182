"""Words of this room: a pool, its spares, what a node says of itself. Pure data and protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from slurm_io.config import ReservationConfig
from slurm_io.slurm.infos import JobInfo, NodeInfo, ReservationInfo

SpareState = Literal["ready", "stale", "syncing", "busy", "unhealthy", "unknown"]
"""ready: takes over now. stale: another version, or not whole. syncing: being staged. busy: runs a
job that does not give way. unhealthy: a check FAILed, drained, down. unknown: gave no answer."""


@dataclass(frozen=True)
class Pool:
    """One reservation as Slurm has it now, seen with the site's settings for it.

    `protected` are jobs that must go on (running or waiting for the reservation, not filler);
    `filler` give way. `spares` are the reservation's nodes (and standby ones) on which no
    protected job runs, in natural order; bad ones included, so that people see them.
    """

    name: str
    settings: ReservationConfig
    reservation: ReservationInfo
    nodes: Mapping[str, NodeInfo]
    protected: tuple[JobInfo, ...]
    filler: tuple[JobInfo, ...]
    foreign: tuple[JobInfo, ...]
    spares: tuple[str, ...]


@dataclass(frozen=True)
class DataSays:
    """A node's record of the dataset. `age_s` since `level` was last proven; None = no record.

    `bytes_behind`, `files_behind`: of the manifest's files, by size, what is not there; files of
    another version that have the same size are not among them. `wanted_id`: which version this
    node takes for the wanted one. `total_bytes` of the manifest, `rate_bytes_s` of the copy that
    brought what is there. `problem`: why the record proves nothing, or what the dataset's own check
    found wrong.
    """

    content_id: str | None
    state: str
    level: int
    age_s: float | None
    bytes_behind: int | None
    files_behind: int | None
    problem: str | None = None
    wanted_id: str | None = None
    total_bytes: int | None = None
    rate_bytes_s: float | None = None


@dataclass(frozen=True)
class NodeSays:
    """What one node answered about itself, or why it did not (`problem`).

    `health` is check -> (answer, text); `drift` name -> value of what must be alike on all nodes
    of a run (kernel, driver, slurm, python, nic_firmware, image); None values were not readable.
    `strays`: processes of users without a job. `gpus`: UUID or serial of each. `unread`: what
    could not be told -> why. `told_by`: uid of the user whose process told it, None = root or we.
    """

    node: str
    asked_at_s: float
    data: DataSays | None = None
    health: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    drift: Mapping[str, str | None] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()
    free_bytes: int | None = None
    unread: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None
    told_by: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        from dataclasses import asdict

        return asdict(self)


@dataclass(frozen=True)
class Answer:
    """One node's answer to one command. `rc` None: it did not run or did not end; `problem` why.

    `uid`: the user as whom it ran, and who could make it say anything; None = root or we.
    """

    node: str
    rc: int | None
    stdout: bytes = b""
    stderr: bytes = b""
    problem: str | None = None
    uid: int | None = None


class Reach(Protocol):
    """Runs a command of ours on nodes, by Slurm and nothing else (no ssh, no agent)."""

    def ask(
        self,
        nodes: Sequence[str],
        arguments: Sequence[str],
        limit_s: float,
        stdin: bytes = b"",
        reservation: str | None = None,
    ) -> dict[str, Answer]:
        """``python -m slurm_io ARGUMENTS`` as root (or SlurmUser) on each node, all at once.

        A busy node is reached inside a job that runs there, an idle one by a short job in the
        reservation. Every node is in the answer; never raises for what one node did.
        """
