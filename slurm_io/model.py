"""Frozen dataclasses that more than one room needs. Pure data: no I/O, standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from slurm_io.records import asdict, dataclass, field, fields

Mode = Literal["user", "slurm"]
CheckAnswer = Literal["OK", "DEGRADED", "FAIL", "UNKNOWN"]
FaultKind = Literal["node", "shared", "job"]
STACKS_SHARE = 0.007  # of one core, for py-spy where it is asked for: 1 % with the rest
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
        """The inverse of :meth:`to_dict`; unknown keys are dropped, lists become tuples.

        Raises:
            TypeError: a key is missing or of another type. Users write these files.
        """
        known = {each.name: data[each.name] for each in fields(cls) if each.name in data}
        nodes = known.get("nodes") or []
        if not isinstance(nodes, (list, tuple)) or not all(isinstance(one, str) for one in nodes):
            raise TypeError("nodes is no list of names")
        for each in fields(cls):
            if each.name != "nodes" and each.name in known:
                _be(each.name, str(each.type), known[each.name])
        return cls(**{**known, "nodes": tuple(nodes)})


def _be(name: str, wanted: str, value: object) -> None:
    """`wanted`: the annotation of a field of :class:`JobIdentity`."""
    if value is None and wanted.endswith("None"):
        return
    kind = int if wanted.startswith("int") else str
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{name} is no {'whole number' if kind is int else 'text'}")


@dataclass(frozen=True)
class SamplerSpec:
    """All a sampler is told, written by whoever starts it as ``sampler.json`` in its spool folder.

    Rates are upper bounds: the governor lowers them to stay under `budget_share` of one core.
    `stacks_share` of one core comes on top where stacks are recorded; 0 = they are not.
    `sluid` is the name of the job's control group from Slurm 26.05 on, where known. `gpus` says
    which GPUs are the job's: ``NAME=value`` of the variable that told it, "all" for every GPU that
    can be seen, None where the job was given none as far as is known.
    `root_starttime` tells a process that got the pid of `root_pid` later from the one meant.
    `attached_by`: pid of the process that started this sampler for a job that runs already; it is
    not of the job, and the sampler ends with it. `reads_along`: the rings are another recording's,
    who alone may remove them.
    """

    job: JobIdentity
    node: str
    mode: Mode
    spool: str
    ring_dir: str
    root_pid: int | None = None
    root_starttime: int | None = None
    attached_by: int | None = None
    reads_along: bool = False
    sluid: str | None = None
    gpus: str | None = None
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
    stacks_share: float = 0.0
    stacks_as_root: bool = False
    idle_exit_s: float = 300.0
    max_lifetime_s: float = 32 * 86400.0
    collectors_off: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SamplerSpec:
        """The inverse of :meth:`to_dict`; unknown keys are dropped."""
        known = {each.name: data[each.name] for each in fields(cls) if each.name in data}
        known["job"] = JobIdentity.from_dict(known["job"])
        known["collectors_off"] = tuple(known.get("collectors_off") or ())
        return cls(**known)


@dataclass(frozen=True)
class CheckResult:
    """One statement about one thing a job needs: the dataset, a mount, a disk.

    `answer`: OK, DEGRADED (works, but worse than it should), FAIL, or UNKNOWN (could not be told;
    `text` says why). `kind` says whose fault it would be: this "node", a "shared" service, or the
    "job" (what it asked for). Only a FAIL of kind "node" may ever drain a node. `text` is one line
    for a person: what is wrong and what to do. `facts` are JSON values with units in their names;
    `not_looked_at` names what was left out and why; `commands` are commands a person may copy.
    `record_only`: for checks.json and the report; no policy makes more of it.
    """

    check: str
    answer: CheckAnswer
    kind: FaultKind
    text: str
    subject: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    not_looked_at: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    record_only: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        data = {each.name: getattr(self, each.name) for each in fields(self)}
        data["facts"] = dict(self.facts)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CheckResult:
        """The inverse of :meth:`to_dict`; unknown keys are dropped, lists become tuples."""
        known = {each.name: data[each.name] for each in fields(cls) if each.name in data}
        for name in ("not_looked_at", "commands"):
            known[name] = tuple(known.get(name) or ())
        return cls(**known)


_WORST_FIRST: tuple[CheckAnswer, ...] = ("FAIL", "DEGRADED", "UNKNOWN", "OK")


def worst_answer(answers: Iterable[CheckAnswer]) -> CheckAnswer:
    """The answer for a whole: FAIL before DEGRADED before UNKNOWN before OK; OK for nothing."""
    return min(answers, key=_WORST_FIRST.index, default="OK")
