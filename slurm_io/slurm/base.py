"""What can be asked of Slurm, whatever the version and the way it is asked.

A backend implements :class:`Slurm`; the one contract test (tests/cluster/test_slurm_access.py) runs
against each. Records are those of :mod:`slurm_io.slurm.infos`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slurm_io.records import dataclass
from slurm_io.slurm.infos import ConfigFacts, JobInfo, NodeInfo, PartitionInfo, ReservationInfo


@dataclass(frozen=True)
class Requeued:
    """A requeue that Slurm took. The job is not stuck before `expected_start_s` (epoch s; None
    for one that is held until somebody releases it)."""

    job_id: str
    expected_start_s: float | None
    why: str


@dataclass(frozen=True)
class JobChange:
    """Fields of a job to set; None = leave. An empty text or list clears the field.

    `start_s` 0 = as soon as is safe, a few seconds from now: it takes away a requeue's delay.
    """

    pinned_to: tuple[str, ...] | None = None
    excludes: tuple[str, ...] | None = None
    start_s: int | None = None
    reservation: str | None = None
    comment: str | None = None
    admin_comment: str | None = None
    extra: str | None = None


@dataclass(frozen=True)
class NewReservation:
    """A reservation to make, of exactly these nodes. `duration_s` None = as long as can be."""

    name: str
    nodes: tuple[str, ...]
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    start_s: int | None = None
    duration_s: int | None = None
    ignore_running_jobs: bool = False


@dataclass(frozen=True)
class NewJob:
    """A batch job to submit for an account. `script` is its text, with ``#!`` in the first line.

    Nothing of the caller's environment reaches it but PATH, HOME and USER. What is None is left to
    Slurm and to the script's own #SBATCH lines; what is given wins over those. `nodes`: exactly
    these. `output`: absolute, with Slurm's patterns.
    """

    name: str
    script: str
    user: str
    work_dir: str
    nodes: tuple[str, ...] = ()
    partition: str | None = None
    reservation: str | None = None
    qos: str | None = None
    account: str | None = None
    comment: str | None = None
    time_limit_s: int | None = None
    requeue: bool | None = None
    output: str | None = None


class SlurmReader(Protocol):
    """What can be asked. Every call has a time limit and raises SlurmError only:
    SlurmUnreachable for no answer, SlurmNotFound for what is not there."""

    def is_up(self) -> bool:
        """Whether a slurmctld answers now."""

    def config(self) -> ConfigFacts:
        """The controller's configuration."""

    def nodes(self) -> tuple[NodeInfo, ...]:
        """All nodes, in natural order (n9 before n10)."""

    def node(self, name: str) -> NodeInfo:
        """One node."""

    def partitions(self) -> tuple[PartitionInfo, ...]:
        """All partitions."""

    def jobs(self) -> tuple[JobInfo, ...]:
        """All jobs that slurmctld still knows; finished ones for MinJobAge."""

    def job(self, job_id: str) -> JobInfo:
        """One job, by its own number."""

    def reservations(self) -> tuple[ReservationInfo, ...]:
        """All reservations."""

    def reservation(self, name: str) -> ReservationInfo:
        """One reservation."""


class Slurm(SlurmReader, Protocol):
    """What can be changed. A change that Slurm or a rule of ours refuses raises SlurmRefused;
    after SlurmUnreachable it is unknown whether the change was made: read again."""

    def drain(self, node: str, reason: str) -> None:
        """No new job; running ones are left alone."""

    def resume(self, node: str) -> None:
        """Back into service."""

    def down(self, node: str, reason: str) -> None:
        """Down at once: its jobs are killed, and requeued where they may be.

        With ReturnToService=2 a node whose slurmd still answers is back in service within
        seconds: drain it first, then it stays drained.
        """

    def set_node_texts(
        self, node: str, comment: str | None = None, extra: str | None = None
    ) -> None:
        """Comment and Extra of a node; "" clears, None leaves."""

    def set_features(self, node: str, features: Sequence[str]) -> None:
        """All features of a node. New ones are active; of the others, those that were."""

    def submit(self, wanted: NewJob) -> str:
        """Submit a batch job; its id."""

    def requeue(self, job_id: str, hold: bool = False) -> Requeued:
        """Put a batch job back into the queue."""

    def release(self, job_id: str) -> None:
        """Release a held job."""

    def cancel(self, job_id: str) -> None:
        """End a job."""

    def update_job(self, job_id: str, change: JobChange) -> None:
        """Set fields of a job; a finished job's admin comment in the accounting."""

    def notify(self, job_id: str, message: str) -> None:
        """A line into a running job's output."""

    def create_reservation(self, wanted: NewReservation) -> ReservationInfo:
        """Make a reservation of explicit nodes, and read it back."""

    def change_reservation(
        self,
        name: str,
        add: tuple[str, ...] = (),
        remove: tuple[str, ...] = (),
        expected: ReservationInfo | None = None,
    ) -> ReservationInfo:
        """Add and remove nodes; refused when it is no longer as `expected`. Read back."""

    def extend_reservation(self, name: str, end_s: int) -> ReservationInfo:
        """Move the end, never nearer. Read back."""

    def delete_reservation(self, name: str) -> None:
        """Delete it; Slurm refuses while its jobs run."""
