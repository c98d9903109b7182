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

from slurm_io.errors import HostError, RegistryError, SlurmIoError
from slurm_io.host import detached
from slurm_io.prolog.check_plan import Plan, plan_checks
from slurm_io.prolog.checks.base import CHECKS, Check, CheckContext
from slurm_io.prolog.checks_file import CheckedNode
from slurm_io.prolog.election import leader_of
from slurm_io.prolog.node_memory import NodeMemory, recall, remember
from slurm_io.prolog.policy import Judged, Verdict, judge
from slurm_io.prolog.request import Request
from slurm_io.prolog.run_checks import CheckRun, RanCheck
from slurm_io.slurm.hook_entry import HookCall

# What several checks import: once here, before there are children, instead of once in each.
_ONCE_FOR_ALL = (
    "slurm_io.filesystems.mounts",
    "slurm_io.host.read",
    "slurm_io.prolog.needed_paths",
    "slurm_io.staging.datasets",
)
LEFT_FOR_THE_REST_S = 0.3  # of the prolog's deadline: writing down what was found


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
        self.trouble = ""

    def run(self) -> None:
        """Run the checks within what is left of the prolog's time."""
        try:
            checks: Mapping[str, Check] = CHECKS.discover()
        except (RegistryError, ImportError, SyntaxError) as error:
            self.trouble = f"no checks: {type(error).__name__}: {error}"
            return
        for module in _ONCE_FOR_ALL:
            with contextlib.suppress(ImportError):  # the check that needs it says so
                importlib.import_module(module)
        call = self._call
        self._memory = recall(call.config, call.job.node)
        time_left_s = max(0.05, call.time_left_s() - LEFT_FOR_THE_REST_S)
        self._plan = plan_checks(checks, context_of(call, self._request), time_left_s)
        self._run = CheckRun(self._plan, self._memory)
        try:
            self._run.run()
        finally:
            self._note_stuck()

    @property
    def verdict(self) -> Verdict:
        """The policy's word on what is known so far."""
        now_s = time.time()
        open_checks = frozenset(
            check for check, until_s in self._memory.open.items() if until_s > now_s
        )
        return judge(self._ran(), self._call.config, self._request.spec.check, open_checks)

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
        faults, passed = self.verdict.drains, self.passed_again()
        if not faults and not passed:
            return
        argv = [sys.executable, "-I", "-m", "slurm_io.prolog.drain"]
        argv += ["--config", self._call.config_path, "--node", self._call.job.node]
        for fault in faults:
            # The blank keeps a text that begins with a dash from being an option.
            argv += ["--fault", fault.result.check, f" {fault.result.text}"]
        for check in passed:
            argv += ["--clear", check]
        detached.spawn(argv, detached.minimal_environment(os.environ))

    def drain_now(self) -> bool:
        """Decide within this prolog; True when the node is out of service.

        When the guard forbids it, the verdict is a warning from now on.
        """
        from slurm_io.host.bounded_log import BoundedLog
        from slurm_io.prolog.drain import Fault, Site, drain_or_alert
        from slurm_io.slurm.node_state import ScontrolNodes

        call, config = self._call, self._call.config
        log = BoundedLog(config.log_file, config.log_max_bytes, f"drain {call.job.node}")
        faults = [Fault(each.result.check, each.result.text) for each in self.verdict.drains]
        try:
            site = Site(config, call.job.node, ScontrolNodes(call.time_left_s()), log)
            drained = drain_or_alert(site, faults)
        except (SlurmIoError, OSError) as error:
            log.write(f"nothing drained: {error}")
            return False
        self._memory = recall(config, call.job.node)
        return drained

    def _ran(self) -> list[RanCheck]:
        return self._run.ran if self._run is not None else []

    def _note_stuck(self) -> None:
        memory = self._memory
        for each in self._ran():
            if each.stuck is not None:
                memory = memory.with_stuck(each.name, *each.stuck)
        if memory != self._memory:
            with contextlib.suppress(HostError):
                remember(self._call.config, self._call.job.node, memory)


def _brief(judged: Judged) -> str:
    result = judged.result
    return f"{result.check} {result.answer} ({judged.action}): {result.text[:160]}"
