"""Which checks run on this node for this job, when, and why the others do not."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slurm_io.config import CheckSettings
from slurm_io.errors import SpecError
from slurm_io.prolog.checks.base import Check, CheckContext
from slurm_io.prolog.election import jitter_share, leader_of
from slurm_io.records import dataclass, replace

if TYPE_CHECKING:
    from slurm_io.staging.datasets import Names

ANSWER_MARGIN = 0.9  # of its deadline: a check that answers in time beats one that is killed
_NO_SETTINGS = CheckSettings()


@dataclass(frozen=True)
class PlannedCheck:
    """One check to run: `delay_s` after the start, killed `deadline_s` after the start."""

    name: str
    check: Check
    context: CheckContext
    delay_s: float
    deadline_s: float

    def context_with_budget(self, passed_s: float) -> CheckContext:
        """What the check is told when `passed_s` of the time are over."""
        return replace(
            self.context, budget_s=max(0.0, (self.deadline_s - passed_s) * ANSWER_MARGIN)
        )


@dataclass(frozen=True)
class Plan:
    """`not_run` are (check, reason); `broken` could not be planned: each reads UNKNOWN."""

    planned: tuple[PlannedCheck, ...]
    not_run: tuple[tuple[str, str], ...] = ()
    broken: tuple[tuple[str, Check, str], ...] = ()


def plan_checks(
    checks: Mapping[str, Check], context: CheckContext, time_left_s: float, by_hand: bool = False
) -> Plan:
    """Sort the registered checks. `context` is the one all share, its `leader` is set here.

    No check may take longer than `time_left_s`; the configured deadlines are for a prolog and do
    not bind one who asks `by_hand`. Checks of shared data start spread over ``checks.jitter_s``,
    but not by hand.
    """
    leader = leader_of(context.nodes, context.node)
    context = replace(context, leader=leader == context.node)
    planned, not_run, broken = [], [], []
    for name, check in checks.items():
        settings = context.config.check.get(name, _NO_SETTINGS)
        reason = _why_not(check, context, settings, leader)
        if reason is not None:
            not_run.append((name, reason))
            continue
        try:
            own = {key: _expanded(value, context) for key, value in settings.own.items()}
        except SpecError as error:
            broken.append((name, check, f"[check.{name}] {error}"))
            continue
        told = replace(context, own=own)
        if check.is_idle(told):
            not_run.append((name, "nothing to check"))
            continue
        wanted_s = settings.common.deadline_s or context.config.checks.deadline_s
        deadline_s = time_left_s if by_hand else min(wanted_s, time_left_s)
        delay_s = 0.0 if by_hand else _delay_s(check, context, deadline_s)
        planned.append(PlannedCheck(name, check, told, delay_s, deadline_s))
    return Plan(tuple(planned), tuple(not_run), tuple(broken))


def _why_not(
    check: Check, context: CheckContext, settings: CheckSettings, leader: str
) -> str | None:
    if not settings.common.enabled:
        return "switched off by the site"
    if check.kind != "node" and context.spec.check == "off":
        return "switched off by the job (check=off)"
    if check.kind == "job" and not (context.spec.dataset or context.spec.ckpt):
        return "the job named neither dataset nor ckpt"
    if check.scope == "shared" and not context.leader:
        return f"checked by {leader}"
    return None


def _delay_s(check: Check, context: CheckContext, deadline_s: float) -> float:
    """Shared services only; never so late that there is no time left to look."""
    if not context.leader or not _looks_at_shared_data(check, context):
        return 0.0
    longest_s = min(context.config.checks.jitter_s, deadline_s / 2)
    return longest_s * jitter_share(context.job, context.node)


def _looks_at_shared_data(check: Check, context: CheckContext) -> bool:
    """Also a check of every node does, as its leader, when the job's dataset is a shared one."""
    if check.scope == "shared":
        return True
    if check.kind != "job" or context.spec.dataset is None:
        return False
    from slurm_io.staging.datasets import place_of

    with contextlib.suppress(SpecError):  # no such dataset: the check says so
        place = place_of(context.config, context.spec, _names(context))
        return place is not None and place.tier == "shared"
    return False


def _names(context: CheckContext) -> Names:
    from slurm_io.staging.datasets import Names

    return Names(context.node, context.user, context.job)


def _expanded(value: Any, context: CheckContext) -> Any:
    """Settings may hold %n, %N, %u, %j like the dataset registry's paths."""
    if isinstance(value, str):
        return _filled(value, context) if "%" in value else value
    if isinstance(value, list):
        return [_expanded(each, context) for each in value]
    if isinstance(value, dict):
        return {key: _expanded(each, context) for key, each in value.items()}
    return value


def _filled(pattern: str, context: CheckContext) -> str:
    from slurm_io.staging.datasets import expand_pattern

    return expand_pattern(pattern, _names(context))
