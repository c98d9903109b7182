"""A small cluster in memory that keeps to the Slurm protocol: what a swap sees and changes.

Time passes when the swap waits; then waiting jobs start where they may. `happens` are things that
others do at a time, `broken` calls that fail, `log` every change that was made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from slurm_io.errors import SlurmNotFound, SlurmRefused
from slurm_io.reservation.pool import is_on_nodes
from slurm_io.slurm.base import JobChange, Requeued
from slurm_io.slurm.infos import ConfigFacts, JobInfo, NodeInfo, Reason, ReservationInfo
from slurm_io.slurm.reservation_rules import refuse_changed, wanted_nodes

NAME = "R"
BEGAN_S = 1_800_000_000.0


@dataclass
class FakeClock:
    """Time that passes only when somebody waits."""

    time_s: float = BEGAN_S
    on_sleep: Callable[[], None] = lambda: None

    def now_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.time_s += max(seconds, 0.001)
        self.on_sleep()


@dataclass
class FakeSlurm:
    """Implements the calls of :class:`slurm_io.slurm.base.Slurm` that a swap makes."""

    nodes_: dict[str, NodeInfo]
    jobs_: dict[str, JobInfo]
    reservation_: ReservationInfo
    clock: FakeClock = field(default_factory=FakeClock)
    log: list[str] = field(default_factory=list)
    broken: dict[str, list[BaseException]] = field(default_factory=dict)
    happens: list[tuple[float, Callable[[FakeSlurm], None]]] = field(default_factory=list)
    schedules: bool = True
    prolog_fails_on: set[str] = field(default_factory=set)
    up: bool = True

    def __post_init__(self) -> None:
        self.clock.on_sleep = self.tick

    # -- reading

    def is_up(self) -> bool:
        return self.up

    def config(self) -> ConfigFacts:
        return ConfigFacts("lab", (22, 5, 8), slurmd_timeout_s=90, kill_wait_s=30)

    def nodes(self) -> tuple[NodeInfo, ...]:
        self._break("nodes")
        return tuple(self.nodes_.values())

    def node(self, name: str) -> NodeInfo:
        self._break("node")
        if name not in self.nodes_:
            raise SlurmNotFound(f"no node {name}")
        return self.nodes_[name]

    def jobs(self) -> tuple[JobInfo, ...]:
        return tuple(self.jobs_.values())

    def job(self, job_id: str) -> JobInfo:
        self._break("job")
        if job_id not in self.jobs_:
            raise SlurmNotFound(f"no job {job_id}")
        return self.jobs_[job_id]

    def reservation(self, name: str) -> ReservationInfo:
        self._break("reservation")
        if name != self.reservation_.name:
            raise SlurmNotFound(f"no reservation {name}")
        return self.reservation_

    # -- changing

    def drain(self, node: str, reason: str) -> None:
        self._note("drain", node, reason)
        self._set_node(node, add=("DRAIN",), reason=reason)
        self._break("after drain")

    def resume(self, node: str) -> None:
        self._note("resume", node)
        old = self.nodes_[node]
        self.nodes_[node] = replace(old, base="IDLE", flags=(), reason=None)

    def down(self, node: str, reason: str) -> None:
        self._note("down", node, reason)
        self.nodes_[node] = replace(self.nodes_[node], base="DOWN")
        for job in self.jobs():
            if node in job.nodes and is_on_nodes(job):
                self._requeue(job)

    def requeue(self, job_id: str, hold: bool = False) -> Requeued:
        self._note("requeue", job_id, "hold" if hold else "")
        job = self.jobs_[job_id]
        if job.batch is False or job.may_requeue is False:
            raise SlurmRefused("cannot be requeued")
        self._requeue(job, hold)
        self._break("after requeue")
        return Requeued(job_id, None, "")

    def release(self, job_id: str) -> None:
        self._note("release", job_id)
        self.jobs_[job_id] = replace(self.jobs_[job_id], is_held=False, reason="None")

    def cancel(self, job_id: str) -> None:
        self._note("cancel", job_id)
        self.jobs_[job_id] = replace(self.jobs_[job_id], state="CANCELLED", nodes=())

    def update_job(self, job_id: str, change: JobChange) -> None:
        self._note("update", job_id, repr(change))
        job = self.jobs_[job_id]
        if change.pinned_to is not None:
            job = replace(job, pinned_to=change.pinned_to)
        if change.excludes is not None:
            job = replace(job, excludes=change.excludes)
        if change.start_s is not None:
            job = replace(job, eligible_s=int(self.clock.now_s()) + 5)
        self.jobs_[job_id] = job

    def change_reservation(
        self,
        name: str,
        add: tuple[str, ...] = (),
        remove: tuple[str, ...] = (),
        expected: ReservationInfo | None = None,
    ) -> ReservationInfo:
        self._break("change")
        now = self.reservation_
        if expected is not None:
            refuse_changed(now, expected)
        self._note("reservation", f"+{','.join(add)}", f"-{','.join(remove)}")
        self.reservation_ = replace(now, nodes=wanted_nodes(now, add, remove))
        self._break("after change")
        return self.reservation_

    # -- time

    def tick(self) -> None:
        """What others do, and what the scheduler does."""
        now_s = self.clock.now_s()
        due = [each for each in self.happens if each[0] <= now_s]
        self.happens = [each for each in self.happens if each[0] > now_s]
        for _, act in due:
            act(self)
        if self.schedules:
            for job in self.jobs():
                self._start(job)

    def _start(self, job: JobInfo) -> None:
        late = (job.eligible_s or 0) > self.clock.now_s()
        if job.state != "PENDING" or job.is_held or late:
            return
        busy = {node for each in self.jobs() if is_on_nodes(each) for node in each.nodes}
        free = [
            name
            for name in self.reservation_.nodes
            if self.nodes_[name].is_idle and name not in busy and name not in job.excludes
        ]
        wanted = job.node_count or 1
        if len(free) < wanted or not set(job.pinned_to) <= set(free):
            return
        nodes = [*job.pinned_to, *(each for each in free if each not in job.pinned_to)][:wanted]
        if failing := self.prolog_fails_on & set(nodes):
            self._set_node(min(failing), add=("DRAIN",), reason="Prolog error")
            held = replace(job, is_held=True, reason="launch_failed_requeued_held")
            self.jobs_[job.job_id] = replace(held, restarts=(job.restarts or 0) + 1)
            return
        self.jobs_[job.job_id] = replace(
            job, state="RUNNING", nodes=tuple(nodes), start_s=int(self.clock.now_s())
        )

    def _requeue(self, job: JobInfo, hold: bool = False) -> None:
        self.jobs_[job.job_id] = replace(
            job,
            state="PENDING",
            nodes=(),
            restarts=(job.restarts or 0) + 1,
            eligible_s=int(self.clock.now_s()) + 120,
            is_held=hold,
            reason="JobHeldAdmin" if hold else "BeginTime",
        )

    def _set_node(self, name: str, add: tuple[str, ...], reason: str) -> None:
        old = self.nodes_[name]
        flags = tuple(dict.fromkeys([*old.flags, *add]))
        at_s = int(self.clock.now_s())
        self.nodes_[name] = replace(old, flags=flags, reason=Reason(reason, "root", at_s))

    def _note(self, *words: str) -> None:
        self._break(words[0])
        self.log.append(" ".join(word for word in words if word))

    def _break(self, call: str) -> None:
        errors = self.broken.get(call)
        if errors:
            raise errors.pop(0)

    def seen(self) -> dict[str, Any]:
        """All of the world that a swap may change, to be compared."""
        return {
            "nodes": {name: (node.base, sorted(node.flags)) for name, node in self.nodes_.items()},
            "jobs": {
                name: (job.state, job.nodes, job.pinned_to, bool(job.is_held))
                for name, job in self.jobs_.items()
            },
            "reservation": sorted(self.reservation_.nodes),
        }
