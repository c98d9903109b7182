"""A scripted Slurm and a scripted way to nodes, for tests of what is made of their answers."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slurm_io.config import Config, parse
from slurm_io.errors import SlurmNotFound
from slurm_io.reservation.model import Answer
from slurm_io.slurm.infos import ConfigFacts, JobInfo, NodeInfo, PartitionInfo, ReservationInfo
from slurm_io.slurm.version import Version

C1 = "c1-" + "1" * 32
C2 = "c1-" + "2" * 32
NODES = ("n1", "n2", "n3", "n4")


def config_of(**reservation: Any) -> Config:
    """One reservation called train, one dataset; keys of the section as given."""
    section = {"dataset": f"c4@{C1}", "filler_qos": ["spare"], **reservation}
    return parse({"reservation": {"train": section}, "dataset": {"c4": {"local": "/data/c4"}}})


def reservation(**values: Any) -> ReservationInfo:
    """Active, of all four nodes, for a year."""
    now_s = int(time.time())
    usual: dict[str, Any] = {
        "name": "train",
        "nodes": NODES,
        "start_s": now_s - 3600,
        "end_s": now_s + 365 * 86400,
        "flags": ("SPEC_NODES",),
    }
    return ReservationInfo(**{**usual, **values})


def training(**values: Any) -> JobInfo:
    """The protected job, on n1 to n3."""
    usual: dict[str, Any] = {
        "job_id": "7",
        "state": "RUNNING",
        "name": "pretrain",
        "user": "ada",
        "uid": 1001,
        "partition": "gpu",
        "qos": "normal",
        "reservation": "train",
        "nodes": NODES[:3],
        "node_count": 3,
        "may_requeue": True,
        "start_s": int(time.time()) - 7200,
        "no_time_limit": True,
    }
    return JobInfo(**{**usual, **values})


def filler(**values: Any) -> JobInfo:
    """A job that gives way, on n4."""
    usual: dict[str, Any] = {"job_id": "8", "name": "evals", "qos": "spare", "nodes": ("n4",)}
    return replace(training(), **{**usual, "node_count": 1, **values})


def node(name: str, **values: Any) -> NodeInfo:
    """Allocated n1 to n3, idle n4."""
    base = "IDLE" if name == "n4" else "ALLOCATED"
    return NodeInfo(**{"name": name, "base": base, "version": "22.05.8", **values})


@dataclass
class FakeSlurm:
    """Answers what it was told to."""

    jobs_now: tuple[JobInfo, ...] = (training(),)
    nodes_now: tuple[NodeInfo, ...] = tuple(map(node, NODES))
    reservations_now: tuple[ReservationInfo, ...] = field(default_factory=lambda: (reservation(),))
    facts: ConfigFacts = field(
        default_factory=lambda: ConfigFacts(
            "lab", Version((22, 5, 8)), slurmd_timeout_s=300, kill_wait_s=30
        )
    )

    def is_up(self) -> bool:
        return True

    def config(self) -> ConfigFacts:
        return self.facts

    def nodes(self) -> tuple[NodeInfo, ...]:
        return self.nodes_now

    def node(self, name: str) -> NodeInfo:
        return next(each for each in self.nodes_now if each.name == name)

    def partitions(self) -> tuple[PartitionInfo, ...]:
        return ()

    def jobs(self) -> tuple[JobInfo, ...]:
        return self.jobs_now

    def job(self, job_id: str) -> JobInfo:
        return next(each for each in self.jobs_now if each.job_id == job_id)

    def reservations(self) -> tuple[ReservationInfo, ...]:
        return self.reservations_now

    def reservation(self, name: str) -> ReservationInfo:
        for each in self.reservations_now:
            if each.name == name:
                return each
        raise SlurmNotFound(f"there is no reservation {name}")


@dataclass
class FakeReach:
    """Nodes answer with what stands in `reports`; the others not at all."""

    reports: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[tuple[str, ...], tuple[str, ...], str | None]] = field(default_factory=list)

    def ask(
        self,
        nodes: Sequence[str],
        arguments: Sequence[str],
        limit_s: float,
        stdin: bytes = b"",
        reservation: str | None = None,
    ) -> dict[str, Answer]:
        self.asked.append((tuple(nodes), tuple(arguments), reservation))
        return {name: self._answer(name) for name in nodes}

    def _answer(self, name: str) -> Answer:
        said = self.reports.get(name)
        if isinstance(said, Answer):
            return said
        if said is None:
            return Answer(name, None, problem="its job did not start within 30 s")
        return Answer(name, 0, said if isinstance(said, bytes) else json.dumps(said).encode())


def report(**values: Any) -> dict[str, Any]:
    """What a healthy node that holds the dataset prints."""
    data = {
        "content_id": C1,
        "state": "ready",
        "level": 4,
        "age_s": 3600.0,
        "bytes_behind": 0,
        "files_behind": 0,
        "problem": None,
        "wanted_id": C1,
    }
    drift = {
        "kernel": "6.1.0-28",
        "driver": "nvidia 570.86.10",
        "python": "3.11.7",
        "nic_firmware": "8x28.39.1002",
        "image": "gpu-image 41",
        "slurm": "22.05.8",
    }
    usual = {
        "node": "whatever",
        "data": data,
        "health": {"mounts": ["OK", "/data answers"], "dataset": ["OK", "level 2 passed"]},
        "skipped": [],
        "drift": drift,
        "gpus": ["GPU-1", "GPU-2"],
        "strays": [],
        "free_bytes": 5_000_000_000_000,
        "unread": {},
    }
    return {**usual, **values}


def data_behind(bytes_behind: int | None, **values: Any) -> dict[str, Any]:
    """The `data` of a report that is behind by so much."""
    return {**report()["data"], "bytes_behind": bytes_behind, "files_behind": 3, **values}
