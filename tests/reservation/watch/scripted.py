"""A reservation of four nodes whose state a test sets, and the deeds of a watch over it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from slurm_io.config import ReservationConfig, SparesConfig
from slurm_io.errors import HostError, SlurmIoError, SlurmUnreachable
from slurm_io.reservation.history import HistoryRecord
from slurm_io.reservation.model import DataSays, NodeSays, Pool, SpareState
from slurm_io.reservation.pool import is_on_nodes
from slurm_io.reservation.watch.act import Event, Policy
from slurm_io.reservation.watch.memory import Memory
from slurm_io.reservation.watch.model import Look
from slurm_io.reservation.watch.one_look import How, one_look
from slurm_io.slurm.infos import JobInfo, NodeInfo, Reason, ReservationInfo

SPARES = SparesConfig(period_s=30, grace_s=60, standstill_nodes=2)
SETTINGS = ReservationConfig(dataset="c4", needed=1, filler_partitions=("filler",))
TRAINING = JobInfo("7", "RUNNING", nodes=("t1", "t2", "t3"), reservation="train")


@dataclass
class ScriptedWorld:
    """Nodes t1 to t4 of reservation ``train``: t1 to t3 run job 7, t4 is the ready spare."""

    settings: ReservationConfig = SETTINGS
    nodes: dict[str, NodeInfo] = field(default_factory=dict)
    members: tuple[str, ...] = ("t1", "t2", "t3", "t4")
    standby: tuple[str, ...] = ()
    jobs: tuple[JobInfo, ...] = (TRAINING,)
    filler: tuple[JobInfo, ...] = ()
    states: dict[str, SpareState] = field(default_factory=lambda: {"t4": "ready"})
    says: dict[str, NodeSays] = field(default_factory=dict)
    lock_holder: str | None = None
    unreachable: bool = False
    running: set[int] = field(default_factory=set)
    started: list[tuple[str, ...]] = field(default_factory=list)
    fillers: list[str] = field(default_factory=list)
    filler_fails: bool = False
    start_fails: bool = False
    cancelled: list[str] = field(default_factory=list)
    records: list[HistoryRecord] = field(default_factory=list)
    alerts: list[str] = field(default_factory=list)

    def set(self, node: str, base: str = "IDLE", *flags: str, reason: str = "") -> None:
        """A node's state in Slurm."""
        told = Reason(reason) if reason else None
        self.nodes[node] = NodeInfo(node, base, flags, told)

    def look(self, at_s: float, left: Sequence[str]) -> Look:
        if self.unreachable:
            raise SlurmUnreachable("scontrol show node: no answer within 20 s")
        pool = Pool(
            "train",
            self.settings,
            ReservationInfo("train", self.members),
            {node: self._info(node) for node in (*self.members, *self.standby)},
            tuple(job for job in self.jobs if job not in self.filler),
            self.filler,
            (),
            tuple(node for node in (*self.members, *self.standby) if not self._carries(node)),
        )
        return Look(
            at_s,
            pool,
            dict(self.says),
            {node: self.states.get(node, "ready") for node in pool.spares},
            {node: self._info(node) for node in left},
            self.lock_holder,
        )

    def start(self, arguments: Sequence[str]) -> tuple[int, int]:
        if self.start_fails:
            raise HostError("cannot start it")
        self.started.append(tuple(arguments))
        self.running.add(len(self.started))
        return len(self.started), 1

    def is_running(self, pid: int, born: int) -> bool:
        assert born == 1
        return pid in self.running

    def submit_filler(self, node: str) -> str:
        if self.filler_fails:
            raise SlurmIoError("sbatch: invalid account")
        self.fillers.append(node)
        return str(100 + len(self.fillers))

    def cancel(self, job_id: str) -> None:
        self.cancelled.append(job_id)

    def sync_features(self, look: Look, distrusted: Collection[str]) -> list[str]:
        raise AssertionError("not asked for")

    def record(self, record: HistoryRecord) -> None:
        self.records.append(record)

    def alert(self, text: str) -> None:
        self.alerts.append(text)

    def _info(self, node: str) -> NodeInfo:
        usual = NodeInfo(node, "ALLOCATED" if self._carries(node) else "IDLE")
        return self.nodes.get(node, usual)

    def _carries(self, node: str) -> bool:
        return any(is_on_nodes(job) and node in job.nodes for job in self.jobs)


@dataclass
class Watching:
    """A watch that looks when told to, at a clock of its own."""

    world: ScriptedWorld = field(default_factory=ScriptedWorld)
    policy: Policy = "suggest"
    memory: Memory = field(default_factory=Memory)
    now_s: float = 1_000_000.0

    def look(self, after_s: float = 30.0) -> list[Event]:
        """One look, `after_s` after the last."""
        self.now_s += after_s
        return one_look(self.world, self.memory, How("train", SPARES, self.policy), self.now_s)

    def looks(self, count: int) -> list[Event]:
        """Events of several looks."""
        return [event for _ in range(count) for event in self.look()]


def names(events: Sequence[Event]) -> list[str]:
    """What happened, without the words."""
    return [event.event for event in events]


def answers(node: str, at_s: float, **changes: Any) -> NodeSays:
    """A node's answer: whole, healthy and proven, but for `changes`."""
    data = DataSays("aa11", "ready", 4, 10.0, 0, 0)
    return NodeSays(**{"node": node, "asked_at_s": at_s, "data": data, **changes})
