"""``slurm-io check``: the prolog's checks, called by a person or by slurmd's HealthCheckProgram."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from slurm_io.config import Config
from slurm_io.errors import HostError, UsageError
from slurm_io.host.bounded_log import BoundedLog
from slurm_io.model import CheckAnswer, worst_answer
from slurm_io.prolog.check_plan import plan_checks
from slurm_io.prolog.checks.base import CHECKS, Check, CheckContext
from slurm_io.prolog.checks_file import CheckedNode, check_entries, not_run_entries
from slurm_io.prolog.node_memory import NodeMemory, recall, remember
from slurm_io.prolog.policy import Judged, judge, policy_of
from slurm_io.prolog.run_checks import CheckRun, with_left_behind
from slurm_io.spec import JobSpec, spec_from_pairs

DEADLINE_S = 20.0  # nobody waits for a job: slurmd kills a HealthCheckProgram after 60 s
_NODE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
EXIT_CODES: dict[CheckAnswer, int] = {"OK": 0, "DEGRADED": 1, "FAIL": 1, "UNKNOWN": 3}


@dataclass(frozen=True)
class Wanted:
    """What to check: names of checks (() = all), the job's wishes, or the node alone."""

    only: tuple[str, ...] = ()
    spec: JobSpec = field(default_factory=JobSpec)
    node_only: bool = False


def spec_of(dataset: str | None, ckpt: str | None) -> JobSpec:
    """The job that would ask for these. Raises SpecError."""
    pairs = {"dataset": dataset, "ckpt": ckpt}
    given = {key: value for key, value in pairs.items() if value is not None}
    return spec_from_pairs(given, allow_paths=True)


def default_node() -> str:
    """Slurm's name of this node, as far as can be told without asking Slurm."""
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]


def check_node(config: Config, node: str, wanted: Wanted) -> CheckedNode:
    """Run the checks here and now, as whoever we are. Raises UsageError for an unknown name."""
    if not _NODE_NAME.fullmatch(node):
        raise UsageError(f"{node!a} is no node's name: give one with --node")
    began_s = time.monotonic()
    uid = os.geteuid()
    context = CheckContext(
        node=node,
        config=config,
        spec=wanted.spec,
        budget_s=DEADLINE_S,
        user=_user_name(uid),
        uid=uid,
        gid=os.getegid(),
    )
    plan = plan_checks(_chosen(wanted), context, DEADLINE_S, by_hand=True)
    # A HealthCheckProgram runs every few minutes: on a dead mount it must not leave one more each
    # time. Only root's memory is believed, and only root keeps it.
    memory = recall(config, node) if uid == 0 else NodeMemory()
    run = CheckRun(plan, memory)
    run.run()
    if uid == 0 and with_left_behind(memory, run.ran) != memory:
        with contextlib.suppress(HostError):
            remember(config, node, with_left_behind(recall(config, node), run.ran))
    silent = [(each.name, "nothing to check") for each in run.ran if not each.results]
    return CheckedNode(
        verdict=judge(run.ran, config),
        not_run=tuple(sorted((*plan.not_run, *silent))),
        leader=node,
        wall_s=time.monotonic() - began_s,
    )


def answers_of(checked: CheckedNode) -> dict[str, CheckAnswer]:
    """Check -> its worst answer. What is only recorded is no reason to keep a node drained."""
    by_check: dict[str, list[CheckAnswer]] = {}
    for judged in checked.verdict.judged:
        by_check.setdefault(judged.result.check, []).append(_answer_that_counts(judged))
    return {check: worst_answer(answers) for check, answers in by_check.items()}


def exit_code(checked: CheckedNode) -> int:
    """0 all OK, 1 any FAIL or DEGRADED, 3 only UNKNOWN besides OK; what is only recorded is OK."""
    return EXIT_CODES[worst_answer(map(_answer_that_counts, checked.verdict.judged))]


def undrain_node(config: Config, node: str, checked: CheckedNode) -> str:
    """Give the node back if we drained it and its check passes; one line. Needs root.

    Raises SlurmError, HostError.
    """
    from slurm_io.prolog.drain_site import Site
    from slurm_io.prolog.undrain import undrain
    from slurm_io.slurm.node_state import ScontrolNodes

    if os.geteuid() != 0:
        raise HostError("only root may give a node back: sudo slurm-io check --undrain")
    log = BoundedLog(config.log_file, config.log_max_bytes, f"check {node}")
    return undrain(Site(config, node, ScontrolNodes(), log), answers_of(checked))


def as_json(node: str, checked: CheckedNode, undrained: str | None) -> dict[str, Any]:
    """What ``--json`` prints: checks.json without the job."""
    return {
        "schema": 1,
        "node": node,
        "checks": check_entries(checked.verdict),
        "not_run": not_run_entries(checked.not_run),
        "wall_s": round(checked.wall_s, 4),
        "cpu_s": round(checked.cpu_s, 4),
        **({"undrain": undrained} if undrained is not None else {}),
    }


def as_lines(checked: CheckedNode) -> Iterator[str]:
    """A table for people; texts are printable since :mod:`slurm_io.prolog.check_answers`."""
    names = [judged.result.check for judged in checked.verdict.judged]
    width = max(map(len, (*names, *(name for name, _ in checked.not_run))), default=0)
    for judged in checked.verdict.judged:
        yield from _lines(judged, width)
    for name, reason in checked.not_run:
        yield f"{'-':<9} {name:<{width}}  not run: {reason}"


def list_checks(config: Config) -> list[dict[str, Any]]:
    """Name, scope, identity, kind and policy in force of each check."""
    return [
        {
            "check": name,
            "kind": check.kind,
            "scope": check.scope,
            "identity": check.identity,
            "policy": policy_of(name, check, config),
            "enabled": config.check[name].common.enabled if name in config.check else True,
        }
        for name, check in CHECKS.discover().items()
    ]


def _answer_that_counts(judged: Judged) -> CheckAnswer:
    return "OK" if judged.result.record_only else judged.result.answer


def _lines(judged: Judged, width: int) -> Iterable[str]:
    result = judged.result
    indent = " " * (12 + width)
    subject = f"{result.subject}: " if result.subject and result.subject not in result.text else ""
    note = " (recorded only)" if result.record_only else ""
    yield f"{result.answer:<9} {result.check:<{width}}  {subject}{result.text}{note}"
    yield from (f"{indent}not looked at: {each}" for each in result.not_looked_at)
    yield from (f"{indent}$ {each}" for each in result.commands)


def _chosen(wanted: Wanted) -> dict[str, Check]:
    checks = CHECKS.discover()
    if strangers := sorted(set(wanted.only) - set(checks)):
        raise UsageError(f"no check called {', '.join(strangers)}; there are: {', '.join(checks)}")
    of_jobs = [name for name in wanted.only if checks[name].kind == "job"]
    if of_jobs and not (wanted.spec.dataset or wanted.spec.ckpt):
        what = ", ".join(of_jobs)
        raise UsageError(f"{what}: only for what a job names; give --dataset or --ckpt too")
    return {
        name: check
        for name, check in checks.items()
        if (not wanted.only or name in wanted.only)
        and not (wanted.node_only and (check.kind != "node" or check.scope != "node"))
    }


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "unknown"
