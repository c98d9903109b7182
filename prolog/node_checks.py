"""All that a prolog does about checks: plan, run, judge, remember, and hand a node's fault on.

Kept apart from the hook so that what is known survives the prolog's deadline: each step leaves its
result in :class:`NodeChecks`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from slurm_io.config import WRITING_DOWN_S
from slurm_io.errors import HostError, RegistryError, SlurmIoError
from slurm_io.host import detached
from slurm_io.prolog.check_plan import Plan, plan_checks
from slurm_io.prolog.checks.base import CHECKS, Check, CheckContext
from slurm_io.prolog.checks_file import CheckedNode
from slurm_io.prolog.election import leader_of
from slurm_io.prolog.node_memory import NodeMemory, recall, remember
from slurm_io.prolog.policy import Judged, Verdict, judge
from slurm_io.prolog.request import Request
from slurm_io.prolog.run_checks import CheckRun, RanCheck, with_left_behind
from slurm_io.slurm.hook_entry import DeadlineError, HookCall

if TYPE_CHECKING:
    from slurm_io.prolog.drain_site import Fault

GLANCE_S = 1.0  # at other nodes, before a job is stopped for a fault of this one
GLANCE_LEAST_S = 0.1


def context_of(call: HookCall, request: Request) -> CheckContext:
    """What all checks of this job on this node are told."""
    identity = call.job.identity
    return CheckContext(
        node=call.job.node,
        config=call.config,
        spec=request.spec,
        budget_s=call.config.checks.deadline_s,
        user=identity.user,
        uid=identity.uid,
        gid=call.job.gid,
        job=identity.job,
        nodes=identity.nodes,
        gpus_on_node=identity.gpus_on_node,
    )


class NodeChecks:
    """One round. `checked` is what is known so far, whenever it is asked for."""

    def __init__(self, call: HookCall, request: Request) -> None:
        self._call = call
        self._request = request
        self._memory = NodeMemory()
        self._plan = Plan(())
        self._run: CheckRun | None = None
        self._began_s = time.monotonic()
        self._in_wave = frozenset[str]()
        self.trouble = ""

    def run(self) -> None:
        """Run the checks within what is left of the prolog's time."""
        try:
            checks: Mapping[str, Check] = CHECKS.discover()
        except (RegistryError, ImportError, SyntaxError) as error:
            self.trouble = f"no checks: {type(error).__name__}: {error}"
            return
        call = self._call
        self._memory = recall(call.config, call.job.node)
        time_left_s = max(0.05, call.time_left_s() - WRITING_DOWN_S)
        self._plan = plan_checks(checks, context_of(call, self._request), time_left_s)
        self._run = CheckRun(self._plan, self._memory)  # from here on it counts the time
        _load(self._plan)
        try:
            self._run.run()
        finally:
            self._note_stuck()

    @property
    def verdict(self) -> Verdict:
        """The policy's word on what is known so far."""
        return self._judged(self._in_wave)

    @property
    def checked(self) -> CheckedNode:
        """For checks.json."""
        leader = leader_of(self._call.job.identity.nodes, self._call.job.node)
        see = "" if leader == self._call.job.node else f" here; {leader} looks at shared data"
        silent = [(each.name, f"nothing to check{see}") for each in self._ran() if not each.results]
        return CheckedNode(
            verdict=self.verdict,
            not_run=(*self._plan.not_run, *silent),
            leader=leader,
            wall_s=time.monotonic() - self._began_s,
        )

    def summary(self) -> str:
        """For the log: ``7 checks OK`` or those that are not."""
        judged = self.verdict.judged
        odd = [_brief(each) for each in judged if each.result.answer != "OK"]
        told = "; ".join(odd) if odd else f"{len(judged)} checks OK"
        return self.trouble or told

    def passed_again(self) -> tuple[str, ...]:
        """Checks whose mark this node has set and that did not fail now."""
        return tuple(
            each.name
            for each in self._ran()
            if each.name in self._memory.marks
            and each.results
            and all(result.answer in ("OK", "DEGRADED") for result in each.results)
        )

    def spawn_drain(self) -> None:
        """Start the detached process that decides about this node's drain, when there is cause.

        Raises OSError.
        """
        faults, passed = self._faults(), self.passed_again()
        if not faults and not passed:
            return
        argv = [sys.executable, "-I", "-m", "slurm_io.prolog.drain"]
        argv += ["--config", self._call.config_path, "--node", self._call.job.node]
        for fault in faults:
            # The blank keeps a text that begins with a dash from being an option.
            argv += ["--fault" if fault.drains else "--stopped", fault.check, f" {fault.text}"]
        for check in passed:
            argv += ["--clear", check]
        detached.spawn(argv, detached.minimal_environment(os.environ))

    def drain_now(self) -> bool:
        """Decide within this prolog; True when the node is out of service.

        When the guard forbids it, the verdict is a warning from now on.
        """
        from slurm_io.host.bounded_log import BoundedLog
        from slurm_io.prolog.drain import drain_or_alert
        from slurm_io.prolog.drain_site import Site
        from slurm_io.slurm.node_state import ScontrolNodes

        call, config = self._call, self._call.config
        log = BoundedLog(config.log_file, config.log_max_bytes, f"drain {call.job.node}")
        try:
            site = Site(config, call.job.node, ScontrolNodes(call.time_left_s()), log)
            drained = drain_or_alert(site, self._faults())
        except (SlurmIoError, OSError) as error:
            log.write(f"nothing drained: {error}")
            return False
        self._memory = recall(config, call.job.node)
        return drained

    def look_for_wave(self) -> None:
        """Before a job is stopped for a fault of this node: if too many nodes are known to fail
        alike, the job is only warned. Nothing when slurmctld does not say within `GLANCE_S`."""
        faults, call = self._faults(), self._call
        time_s = min(GLANCE_S, call.time_left_s() - WRITING_DOWN_S)
        if not faults or time_s < GLANCE_LEAST_S:
            return
        from slurm_io.prolog.blast_radius import joins_wave
        from slurm_io.slurm.node_state import ScontrolNodes

        with contextlib.suppress(SlurmIoError):
            nodes = ScontrolNodes(time_s).read()
            self._in_wave = frozenset(
                fault.check
                for fault in faults
                if joins_wave(
                    fault.check, call.job.node, nodes, call.config.checks, int(time.time())
                )
            )

    def _judged(self, in_wave: frozenset[str] = frozenset()) -> Verdict:
        now_s = time.time()
        # Not further ahead than it is ever set: a clock that was wrong then is none for years.
        most_s = self._call.config.checks.blast_window_s
        is_open = (
            check for check, until_s in self._memory.open.items() if 0 < until_s - now_s <= most_s
        )
        open_checks = in_wave.union(is_open)
        return judge(self._ran(), self._call.config, self._request.spec.check, open_checks)

    def _faults(self) -> list[Fault]:
        """The node's own faults that the blast-radius guard has to hear of. A glance at other nodes
        changes nothing here: this node is to be counted as well."""
        verdict = self._judged()
        drains, stops = verdict.drains, verdict.node_stops
        if not drains and not stops:
            return []
        from slurm_io.prolog.drain_site import Fault  # healthy nodes do without

        return [
            *(Fault(each.result.check, each.result.text) for each in drains),
            *(Fault(each.result.check, each.result.text, drains=False) for each in stops),
        ]

    def _ran(self) -> list[RanCheck]:
        return self._run.ran if self._run is not None else []

    def _note_stuck(self) -> None:
        memory = with_left_behind(self._memory, self._ran())
        if memory != self._memory:
            with contextlib.suppress(HostError):
                remember(self._call.config, self._call.job.node, memory)


def _load(plan: Plan) -> None:
    """Import what the checks need once for all, as root, before there are children."""
    for planned in plan.planned:
        modules = planned.check.modules(planned.context.spec)
        all(_is_loaded(module) for module in modules)


def _is_loaded(module: str) -> bool:
    try:
        importlib.import_module(module)
    except DeadlineError:
        raise
    except Exception:  # noqa: BLE001 - the check meets it again in its child and says so
        return False
    return True


def _brief(judged: Judged) -> str:
    result = judged.result
    return f"{result.check} {result.answer} ({judged.action}): {result.text[:160]}"
