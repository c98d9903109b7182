"""What follows from what the checks found: the one place that decides.

======================================  ==========================================================
a result                                may do at most
======================================  ==========================================================
OK                                      nothing
UNKNOWN                                 warn when it timed out or is about the job's own wishes,
                                        else record: never stop, never drain
DEGRADED                                warn
FAIL of kind "job" or "shared"          stop (the job's tasks fail with a message, the node stays)
FAIL of kind "node"                     drain, when a root check says so; else stop
any, marked ``record_only``             record: it says little of the node, or any user causes it
======================================  ==========================================================

Below that ceiling the site's ``[check.NAME] policy`` decides, else the check's default. The job's
``check=`` moves its own checks only (kind "job" and "shared"): ``hold`` stops on a FAIL, ``warn``
never stops, ``off`` does not run them. Drain means: the node is drained (unless the blast-radius
guard forbids) and the job's tasks do not start there. Where many nodes fail alike, the guard has a
check's stops and drains be warnings for a while.
"""

from __future__ import annotations

from typing import Literal

from slurm_io.config import Config
from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import Check, Policy
from slurm_io.prolog.run_checks import RanCheck
from slurm_io.records import dataclass

Action = Literal["none", "record", "warn", "stop", "drain"]
_STRENGTH: tuple[Action, ...] = ("none", "record", "warn", "stop", "drain")


@dataclass(frozen=True)
class Judged:
    """One result and what follows. `policy`: what was in force before ceilings were applied."""

    result: CheckResult
    policy: Policy
    action: Action
    ran: RanCheck


@dataclass(frozen=True)
class Verdict:
    """All results of one node for one job, in the order of checks' names."""

    judged: tuple[Judged, ...]

    @property
    def stops(self) -> bool:
        """Whether the job's tasks must not start on this node."""
        return any(each.action in ("stop", "drain") for each in self.judged)

    @property
    def drains(self) -> tuple[Judged, ...]:
        """Faults that may drain the node."""
        return tuple(each for each in self.judged if each.action == "drain")

    @property
    def node_stops(self) -> tuple[Judged, ...]:
        """Faults of the node itself that stop the job and, by the site's policy, drain nothing."""
        return tuple(
            each
            for each in self.judged
            if each.action == "stop"
            and each.result.kind == "node"
            and each.ran.check.identity == "root"  # no user's doing may count as a node's failure
        )


def judge(
    ran: list[RanCheck],
    config: Config,
    asked: str | None = None,
    open_checks: frozenset[str] = frozenset(),
) -> Verdict:
    """Apply the table above. `asked` is the job's ``check=``; `open_checks` are those whose drains
    the blast-radius guard stopped a short while ago: they only warn."""
    judged = [
        Judged(result, policy, _action(result, policy, each, asked, open_checks), each)
        for each in sorted(ran, key=lambda one: one.name)
        for result in each.results
        for policy in (policy_of(each.name, each.check, config),)
    ]
    return Verdict(tuple(judged))


def policy_of(name: str, check: Check, config: Config) -> Policy:
    """The site's policy for a check, else the check's own default."""
    settings = config.check.get(name)
    chosen: Policy = (settings.common.policy or check.policy) if settings else check.policy  # type: ignore[assignment]
    return chosen


def _action(
    result: CheckResult,
    policy: Policy,
    ran: RanCheck,
    asked: str | None,
    open_checks: frozenset[str],
) -> Action:
    wanted: Action = policy
    if result.kind != "node" and asked == "hold" and result.answer == "FAIL":
        wanted = "stop"
    if result.kind != "node" and asked == "warn":
        wanted = _weaker(wanted, "warn")
    if ran.name in open_checks:
        wanted = _weaker(wanted, "warn")
    return _weaker(wanted, _ceiling(result, ran))


def _ceiling(result: CheckResult, ran: RanCheck) -> Action:
    if result.answer == "OK":
        return "none"
    if result.record_only:
        return "record"
    if result.answer == "UNKNOWN":
        return "warn" if ran.timed_out or result.kind == "job" else "record"
    if result.answer == "DEGRADED":
        return "warn"
    # What a user's own rights and environment decide must never be able to drain a node.
    return "drain" if result.kind == "node" and ran.check.identity == "root" else "stop"


def _weaker(one: Action, other: Action) -> Action:
    return min(one, other, key=_STRENGTH.index)
