"""What a check is, what it is told, and where checks register.

A check is one module of this folder that registers one function under the module's own name::

    @CHECKS.register("mounts")
    @check(kind="node", scope="node", identity="root", policy="warn")
    def mounts(context: CheckContext) -> list[CheckResult]:
        ...

The runner calls it in a forked child of its own with a deadline, as root or as the job's user
(`identity`), so it may touch what can hang; a child that does not answer reads UNKNOWN. Standard
library only, and heavy imports inside the function: every prolog loads every check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from slurm_io.config import Config, DatasetConfig
from slurm_io.model import CheckResult, FaultKind
from slurm_io.registry import Registry
from slurm_io.spec import JobSpec

Scope = Literal["node", "shared"]
Identity = Literal["root", "user"]
Policy = Literal["record", "warn", "stop", "drain"]


@dataclass(frozen=True)
class CheckContext:
    """All a check is told. `budget_s` is the time it has; answer before it is over.

    `user`, `uid`, `gid`: whom the job runs as. `nodes`: the job's nodes, () when not known.
    `leader`: this node looks at shared data for the whole job. `own`: the check's own keys of
    ``[check.NAME]`` as written, to be read with :func:`slurm_io.config.read_section`.
    `proc_root` and `sys_root` let tests look at recorded trees.
    """

    node: str
    config: Config
    spec: JobSpec
    budget_s: float
    user: str
    uid: int
    gid: int
    job: str | None = None
    nodes: tuple[str, ...] = ()
    gpus_on_node: int | None = None
    leader: bool = True
    own: Mapping[str, Any] = field(default_factory=dict)
    proc_root: str = "/proc"
    sys_root: str = "/sys"

    def dataset(self) -> DatasetConfig | None:
        """The registry's entry for the dataset the job named; None when it named none."""
        name = (self.spec.dataset or "").partition("@")[0]
        return self.config.datasets.get(name)


@dataclass(frozen=True)
class Check:
    """One registered check. `scope` "shared" runs on the leader only; `kind` is the fault it finds
    as a rule (each result names its own); `policy` is the default when the site says nothing."""

    function: Callable[[CheckContext], list[CheckResult]]
    kind: FaultKind
    scope: Scope
    identity: Identity
    policy: Policy

    def run(self, context: CheckContext) -> list[CheckResult]:
        """Results, [] when there is nothing to check for this job."""
        return self.function(context)


def check(
    *, kind: FaultKind, scope: Scope, identity: Identity, policy: Policy = "warn"
) -> Callable[[Callable[[CheckContext], list[CheckResult]]], Check]:
    """Decorator: make a function a :class:`Check`."""

    def make(function: Callable[[CheckContext], list[CheckResult]]) -> Check:
        return Check(function, kind, scope, identity, policy)

    return make


CHECKS: Registry[Check] = Registry("check", "slurm_io.prolog.checks")
