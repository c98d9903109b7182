"""What Slurm knows, in one form for all versions and all ways to ask.

Frozen; names in full (no ``t[1-4]``), times in epoch seconds, durations in seconds, memory in MiB,
GPUs by type. None = Slurm does not say, or there is none; never 0 for unknown. Free texts are ""
when unset.
"""

from __future__ import annotations

import re

from slurm_io.records import dataclass, field
from slurm_io.slurm.gres import Gpus
from slurm_io.slurm.version import Version

QUIET_FLAGS = frozenset({"DYNAMIC_NORM", "CLOUD", "RESERVED"})
"""Flags that keep nobody from using an idle node; any other, also one not known here, may."""


@dataclass(frozen=True)
class Reason:
    """Why a node is out: text, who said so, when (epoch s)."""

    text: str
    user: str | None = None
    at_s: int | None = None


@dataclass(frozen=True)
class NodeInfo:
    """One node. `base` is IDLE, MIXED, ALLOCATED, DOWN, ... and `flags` the words behind it.

    `address`: what slurmctld reaches it by, a name or an address; "" when not told.
    """

    name: str
    base: str
    flags: tuple[str, ...] = ()
    reason: Reason | None = None
    comment: str = ""
    extra: str = ""
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    active_features: tuple[str, ...] = ()
    reservation: str | None = None
    cpus: int | None = None
    cpus_allocated: int | None = None
    cores: int | None = None
    memory_mib: int | None = None
    memory_allocated_mib: int | None = None
    gpus: Gpus = field(default_factory=Gpus)
    gpus_used: Gpus | None = None
    tres_allocated: tuple[tuple[str, int], ...] = ()
    os: str = ""
    version: str | None = None
    boot_s: int | None = None
    slurmd_start_s: int | None = None
    last_busy_s: int | None = None
    resume_after_s: int | None = None
    suspend_time_s: int | None = None
    address: str = ""

    @property
    def is_drained(self) -> bool:
        """Drained or draining: no new job starts there."""
        return "DRAIN" in self.flags

    @property
    def is_responding(self) -> bool:
        """slurmd answers."""
        return "NOT_RESPONDING" not in self.flags

    @property
    def is_idle(self) -> bool:
        """Idle, and nothing but a reservation may keep a job from starting there."""
        return self.base == "IDLE" and QUIET_FLAGS.issuperset(self.flags)

    @property
    def is_free(self) -> bool:
        """Idle and in no reservation."""
        return self.is_idle and self.reservation is None and "RESERVED" not in self.flags


@dataclass(frozen=True)
class NodeShare:
    """What one job has of one node; None where the version does not tell."""

    cpus: int | None = None
    cores: int | None = None
    memory_mib: int | None = None


@dataclass(frozen=True)
class JobInfo:
    """One job, array task or het component. `state` is one word, `flags` those behind it.

    `time_limit_s` is None with `no_time_limit` for a job without one. `pinned_to` is what
    ``--nodelist`` asked for. `eligible_s` of a requeued job is when it may start again. The
    tasks of an array that have not started are one job: `waiting_tasks` ``4-9,12`` or ``1-9:2``.
    """

    job_id: str
    state: str
    flags: tuple[str, ...] = ()
    name: str = ""
    user: str | None = None
    uid: int | None = None
    reason: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None
    nodes: tuple[str, ...] = ()
    pinned_to: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    batch: bool | None = None
    may_requeue: bool | None = None
    restarts: int | None = None
    is_held: bool | None = None
    node_count: int | None = None
    submit_s: int | None = None
    eligible_s: int | None = None
    start_s: int | None = None
    end_s: int | None = None
    time_limit_s: int | None = None
    no_time_limit: bool = False
    features: str = ""
    dependency: str = ""
    comment: str = ""
    admin_comment: str = ""
    extra: str = ""
    work_dir: str = ""
    failed_node: str | None = None
    gpus: Gpus | None = None
    shares: tuple[tuple[str, NodeShare], ...] = ()
    array: tuple[str, int] | None = None
    waiting_tasks: str = ""
    het: tuple[str, int] | None = None

    def is_called(self, name: str) -> bool:
        """Whether ``123``, ``123_4`` (array task) or ``123+1`` (component) means this job."""
        for sign, pair in (("_", self.array), ("+", self.het)):
            if pair is not None and name == f"{pair[0]}{sign}{pair[1]}":
                return True
        array, _, task = name.partition("_")
        if array == self.job_id and task.isdecimal() and self.waiting_tasks:
            return _covers(self.waiting_tasks, int(task))
        return name == self.job_id


def _covers(tasks: str, number: int) -> bool:
    """Whether ``4-9,12%2`` or ``1-9:2`` has this task; text that is cut (``...``) has it not."""
    for each in tasks.partition("%")[0].split(","):
        found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([1-9][0-9]{0,8}))?)?", each)
        if found is not None:
            first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
            if first <= number <= last and (number - first) % step == 0:
                return True
    return False


@dataclass(frozen=True)
class ReservationInfo:
    """One reservation. `flags` as ``scontrol show`` spells them, without ``=value``.

    `state` is ACTIVE or INACTIVE as Slurm says it (None in JSON); ask :meth:`is_active`.
    `problems` says which value could not be read, and why.
    """

    name: str
    nodes: tuple[str, ...] = ()
    start_s: int | None = None
    end_s: int | None = None
    duration_s: int | None = None
    state: str | None = None
    flags: tuple[str, ...] = ()
    partition: str | None = None
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    cores: int | None = None
    node_count: int | None = None
    tres: tuple[tuple[str, int], ...] = ()
    comment: str = ""
    problems: tuple[str, ...] = ()

    def is_active(self, now_s: float) -> bool | None:
        """Whether it holds its nodes at that time; None when its times could not be read."""
        if self.start_s is None or self.end_s is None:
            return None
        return self.start_s <= now_s < self.end_s

    def left_s(self, now_s: float) -> float | None:
        """Seconds until its end. "infinite" is 365 days: whoever needs it longer extends it."""
        return None if self.end_s is None else self.end_s - now_s


@dataclass(frozen=True)
class PartitionInfo:
    """One partition."""

    name: str
    nodes: tuple[str, ...] = ()
    state: str = ""
    is_default: bool = False
    max_time_s: int | None = None
    priority_tier: int | None = None
    preempt_mode: str | None = None


@dataclass(frozen=True)
class ConfigFacts:
    """What slurmctld's configuration says that decides how fast a job comes back.

    `has_prolog`: slurmd runs a Prolog before the first step on a node; None = not told. It can
    kill a step's processes in `unkillable_step_s`, else the node is drained.
    """

    cluster: str
    version: Version
    cred_expire_s: int = 120
    requeue_delay_s: int | None = None
    slurmd_timeout_s: int | None = None
    kill_wait_s: int | None = None
    min_job_age_s: int | None = None
    return_to_service: int | None = None
    job_requeue: bool | None = None
    scheduler_parameters: tuple[str, ...] = ()
    prolog_flags: tuple[str, ...] = ()
    accounting: bool = False
    has_prolog: bool | None = None
    unkillable_step_s: int | None = None
    health_check_program: str | None = None

    @property
    def start_delay_s(self) -> int:
        """How long a requeued job waits before it may start (reason BeginTime)."""
        return self.cred_expire_s if self.requeue_delay_s is None else self.requeue_delay_s
