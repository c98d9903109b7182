"""Frozen dataclasses that more than one room needs. Pure data: no I/O, standard library only."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Mode = Literal["user", "slurm"]
LOCAL_CLUSTER = "local"  # the cluster of a run outside Slurm


@dataclass(frozen=True)
class JobIdentity:
    """Which job a store, a spool folder or a report is about.

    `restart` counts requeues of one job id, so (cluster, job, restart) is the identity. `job` is a
    Slurm job id, or in user mode outside Slurm a name made from the start time.
    """

    cluster: str
    job: str
    restart: int
    user: str
    uid: int
    name: str | None = None
    array_job: str | None = None
    array_task: int | None = None
    het_job: str | None = None
    het_component: int | None = None
    partition: str | None = None
    account: str | None = None
    nodes: tuple[str, ...] = ()
    gpus_on_node: int | None = None
    work_dir: str | None = None
    comment: str | None = None

    def key(self) -> str:
        """``JOB.RESTART``, the name of the job's folder in a spool or a site store."""
        return f"{self.job}.{self.restart}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> JobIdentity:
        """The inverse of :meth:`to_dict`; unknown keys are dropped, lists become tuples."""
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        known["nodes"] = tuple(known.get("nodes") or ())
        return cls(**known)


@dataclass(frozen=True)
class SamplerSpec:
    """All a sampler is told, written by whoever starts it as ``sampler.json`` in its spool folder.

    Rates are upper bounds: the governor lowers them to stay under `budget_share` of one core.
    """

    job: JobIdentity
    node: str
    mode: Mode
    spool: str
    ring_dir: str
    root_pid: int | None = None
    proc_root: str = "/proc"
    sys_root: str = "/sys"
    interval_s: float = 1.0
    waits_hz: float = 20.0
    capacity_period_s: float = 30.0
    budget_share: float = 0.003
    flush_s: float = 2.0
    rotate_bytes: int = 64 * 1024 * 1024
    rotate_s: float = 3600.0
    spool_max_bytes: int = 2 * 1024 * 1024 * 1024
    idle_exit_s: float = 300.0
    max_lifetime_s: float = 32 * 86400.0
    collectors_off: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SamplerSpec:
        """The inverse of :meth:`to_dict`; unknown keys are dropped."""
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        known["job"] = JobIdentity.from_dict(known["job"])
        known["collectors_off"] = tuple(known.get("collectors_off") or ())
        return cls(**known)
