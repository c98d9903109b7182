"""What a check is, what it is told, and where checks register.

A check is one module of this folder that registers one function under the module's own name::

    @CHECKS.register("mounts")
    @check(kind="node", scope="node", identity="root", policy="warn")
    def mounts(context: CheckContext) -> list[CheckResult]:
        ...

The runner calls it in a forked child with a deadline, as root or as the job's user (`identity`),
so it may touch what can hang: a child that does not answer reads UNKNOWN. Checks of one identity
follow one another in one process until one of them lingers: leave it as it was. Standard library
only, no dataclasses or pathlib (:mod:`slurm_io.records`), and imports inside the function: every
prolog loads every check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from slurm_io.config import Config, DatasetConfig
from slurm_io.model import CheckResult, FaultKind
from slurm_io.records import dataclass, field
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
    as a rule (each result names its own); `policy` is the default when the site says nothing.
    `applies` says by settings and wishes alone, touching nothing, whether there is anything to look
    at: if not, no child is started. `needs` are the modules its function imports as a rule,
    `needs_for_dataset` those it imports too when the job names a dataset: a prolog loads them
    before it forks, so that no two children pay for the same one, and none looks for modules as a
    user. One that is missing here is only slower."""

    function: Callable[[CheckContext], list[CheckResult]]
    kind: FaultKind
    scope: Scope
    identity: Identity
    policy: Policy
    applies: Callable[[CheckContext], bool] | None = None
    needs: tuple[str, ...] = ()
    needs_for_dataset: tuple[str, ...] = ()

    def is_idle(self, context: CheckContext) -> bool:
        """Whether it is clear before it runs that it has nothing to say."""
        return self.applies is not None and not self.applies(context)

    def modules(self, spec: JobSpec) -> tuple[str, ...]:
        """What to import before the fork for a job with these wishes."""
        return self.needs if spec.dataset is None else (*self.needs, *self.needs_for_dataset)

    def run(self, context: CheckContext) -> list[CheckResult]:
        """Results, [] when there is nothing to check for this job."""
        return self.function(context)


def check(
    *,
    kind: FaultKind,
    scope: Scope,
    identity: Identity,
    policy: Policy = "warn",
    applies: Callable[[CheckContext], bool] | None = None,
    needs: tuple[str, ...] = (),
    needs_for_dataset: tuple[str, ...] = (),
) -> Callable[[Callable[[CheckContext], list[CheckResult]]], Check]:
    """Decorator: make a function a :class:`Check`."""

    def make(function: Callable[[CheckContext], list[CheckResult]]) -> Check:
        return Check(function, kind, scope, identity, policy, applies, needs, needs_for_dataset)

    return make


def shown(text: str) -> str:
    """Text from the system as one line that is safe to print."""
    return text if text.isprintable() and text.isascii() else ascii(text)


CHECKS: Registry[Check] = Registry("check", "slurm_io.prolog.checks")
