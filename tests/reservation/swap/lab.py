"""A reservation of four nodes with a job on three, and what its nodes say of themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slurm_io.config import Config, DatasetConfig, ReservationConfig, SparesConfig
from slurm_io.errors import SlurmError
from slurm_io.reservation.model import Answer, DataSays, NodeSays
from slurm_io.reservation.pool import is_on_nodes, read_pool
from slurm_io.reservation.swap.world import SeenSteps, World
from slurm_io.slurm.infos import JobInfo, NodeInfo, Reason, ReservationInfo
from tests.reservation.swap.fake import NAME, FakeSlurm


@dataclass
class FakeNodes:
    """What nodes say, and how their datasets verify. Missing = well."""

    slurm: FakeSlurm
    says: dict[str, NodeSays] = field(default_factory=dict)
    verdicts: dict[str, Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    verified: list[str] = field(default_factory=list)

    def ask_all(self, nodes: Sequence[str]) -> Mapping[str, NodeSays]:
        self.asked += nodes
        return {name: self.says.get(name) or self.well(name) for name in nodes}

    def well(self, name: str) -> NodeSays:
        data = DataSays("c1-a", "ready", 4, 60.0, 0, 0)
        return NodeSays(name, self.slurm.clock.now_s(), data, {"mounts": ("OK", "")})

    def ask(
        self,
        nodes: Sequence[str],
        arguments: Sequence[str],
        limit_s: float,
        stdin: bytes = b"",
        reservation: str | None = None,
    ) -> dict[str, Answer]:
        self.verified += nodes
        fine = json.dumps({"answer": "OK", "text": "3 files"}).encode()
        return {name: self.verdicts.get(name) or Answer(name, 0, fine) for name in nodes}


@dataclass
class Lab:
    """A job on t1-t3 of a reservation t1-t4; t4 is the spare; t5 stands by if `standby` says so."""

    slurm: FakeSlurm
    nodes: FakeNodes
    world: World


def node(name: str) -> NodeInfo:
    return NodeInfo(name, "IDLE", partitions=("main",))


def training(**change: Any) -> JobInfo:
    base = JobInfo(
        "10", "RUNNING", user="games", uid=5, partition="main", reservation=NAME,
        nodes=("t1", "t2", "t3"), batch=True, may_requeue=True, restarts=0, node_count=3,
        qos="normal",
    )  # fmt: skip
    return replace(base, **change)


def filler(number: str = "20", on: str = "t4", **change: Any) -> JobInfo:
    base = JobInfo(
        number, "RUNNING", user="games", uid=5, partition="main", reservation=NAME, nodes=(on,),
        batch=True, may_requeue=True, restarts=0, node_count=1, qos="low",
    )  # fmt: skip
    return replace(base, **change)


def lab(folder: Path, *jobs: JobInfo, standby: str = "", **settings: Any) -> Lab:
    slurm = FakeSlurm(
        {name: node(name) for name in ("t1", "t2", "t3", "t4", "t5")},
        {job.job_id: job for job in jobs or (training(),)},
        ReservationInfo(
            NAME, ("t1", "t2", "t3", "t4"), start_s=1, end_s=4_000_000_000, flags=("SPEC_NODES",),
            users=("games",),
        ),
    )  # fmt: skip
    nodes = FakeNodes(slurm)
    folder.chmod(0o755)
    config = Config(
        state_dir=str(folder),
        spares=SparesConfig(grace_s=30.0, clear_s=60.0, start_s=300.0),
        datasets={"c4": DatasetConfig(local="/data/c4")},
        reservations={
            NAME: ReservationConfig(dataset="c4", standby=standby, filler_qos=("low",), **settings)
        },
    )
    world = World(
        slurm=slurm,  # type: ignore[arg-type]
        reach=nodes,
        config=config,
        read_pool=lambda: read_pool(slurm, config, NAME),  # type: ignore[arg-type]
        ask=nodes.ask_all,
        read_steps=lambda job: SeenSteps(why="no output here"),
        clock=slurm.clock,
    )
    return Lab(slurm, nodes, world)


def lose(slurm: FakeSlurm, name: str, since_s: float = 100.0) -> None:
    """The node went down a while ago; Slurm requeued its job."""
    at_s = int(slurm.clock.now_s() - since_s)
    old = slurm.nodes_[name]
    reason = Reason("Not responding", "slurm", at_s)
    slurm.nodes_[name] = replace(old, base="DOWN", flags=("NOT_RESPONDING",), reason=reason)
    for job in slurm.jobs():
        if name in job.nodes and is_on_nodes(job):
            slurm._requeue(job)


def unreachable() -> SlurmError:
    from slurm_io.errors import SlurmUnreachable

    return SlurmUnreachable("no controller")
