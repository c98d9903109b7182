"""Checks with a known answer, and what they are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slurm_io.config import Config, parse
from slurm_io.model import CheckAnswer, CheckResult, FaultKind
from slurm_io.prolog.checks.base import Check, CheckContext, Identity, Policy, Scope
from slurm_io.spec import JobSpec

DATASET = JobSpec(dataset="c4")


def result(
    answer: CheckAnswer = "OK", kind: FaultKind = "node", text: str = "as it should be", **more: Any
) -> CheckResult:
    return CheckResult("stand_in", answer, kind, text, **more)


def make_check(
    function: Callable[[CheckContext], Any] | CheckResult,
    kind: FaultKind = "node",
    scope: Scope = "node",
    identity: Identity = "root",
    policy: Policy = "warn",
) -> Check:
    if isinstance(function, CheckResult):
        answer = function
        return Check(lambda context: [answer], kind, scope, identity, policy)
    return Check(function, kind, scope, identity, policy)


def make_context(
    spec: JobSpec = DATASET, nodes: tuple[str, ...] = ("t1",), node: str = "t1", **tables: Any
) -> CheckContext:
    return CheckContext(
        node=node,
        config=make_config(**tables),
        spec=spec,
        budget_s=1.0,
        user="games",
        uid=5,
        gid=60,
        job="7",
        nodes=nodes,
    )


def make_config(**tables: Any) -> Config:
    return parse(tables)
