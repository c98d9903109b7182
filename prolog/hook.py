"""The Prolog: read the job's request, start the sampler, run the checks, leave the verdict.

Run by prolog.sh as root on every node of every job, so: standard library only, no Slurm command
(a faulty node's drain excepted: :mod:`slurm_io.prolog.drain`), a deadline, an own log, and no way
of our own to drain a node by accident (:mod:`slurm_io.slurm.hook_entry`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import slurm_io
from slurm_io.config import DRAIN_DECISION_S
from slurm_io.errors import HostError, SlurmIoError
from slurm_io.host.root_folders import write_file
from slurm_io.prolog import start_sampler
from slurm_io.prolog.checks_file import CheckedNode, checks_json
from slurm_io.prolog.request import read_request
from slurm_io.prolog.runtime_folder import RuntimeContent, publish
from slurm_io.slurm.hook_entry import HookCall, NodeDrainedError, run_hook
from slurm_io.slurm.job_places import places_of, spool_folder

if TYPE_CHECKING:
    from slurm_io.prolog.node_checks import NodeChecks

STOP_EXIT_CODE = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry of prolog.sh: ``[--config FILE]``."""
    return run_hook("prolog", prepare, arguments)


def prepare(call: HookCall) -> str:
    """Do the prolog's work for one job; one line for the log.

    Raises HostError, OSError, NodeDrainedError, and DeadlineError: what was known by then has been
    published all the same.
    """
    if call.job.is_unallocated:
        return "srun --no-allocate: no job, so nothing to prepare"
    work = Preparation(call)
    try:
        work.start_sampler()
        work.run_checks()
        work.drain_inside()
        work.look_for_wave()
    finally:
        # Without a runtime folder there is no hook and no word to the user: no alarm stops this.
        signal.setitimer(signal.ITIMER_REAL, 0)
        work.publish()
    work.drain_detached()
    return work.line()


class Preparation:
    """One prolog; what each step found stays here, so that a later one may fail."""

    def __init__(self, call: HookCall) -> None:
        self._call = call
        self._request = read_request(call.job, call.config)
        self._sampler = "not profiled: profile=off or [sampler] enabled=false"
        self._profiled = False
        self._checks: NodeChecks | None = None
        self._decided = False
        self._drained = False

    def start_sampler(self) -> None:
        """Start it first: it needs no verdict."""
        call = self._call
        if not call.config.sampler.enabled or self._request.spec.profile == "off":
            return
        self._sampler = "not profiled: the prolog's time was over"
        try:
            places = places_of(call.job, call.config.spool_dir, call.config.runtime_dir)
            profile = self._request.spec.profile
            spec = start_sampler.sampler_spec(call.job, places, call.config, profile)
            with spool_folder(call.job, call.config.spool_dir, create=True) as folder:
                write_file(folder, "checks.json", self._checks_json(CheckedNode()), 0o600)
                self._sampler = start_sampler.start(folder, spec, call.config, os.environ)
            self._profiled = True
        except (SlurmIoError, OSError) as error:
            self._sampler = f"not profiled: {error}"

    def run_checks(self) -> None:
        """Run all that apply."""
        if not self._call.config.checks.enabled:
            return
        # Here: a site without checks does not load them.
        from slurm_io.prolog.node_checks import NodeChecks

        self._checks = NodeChecks(self._call, self._request)
        self._checks.run()

    def publish(self) -> None:
        """The runtime folder for the task prolog, and checks.json for the report."""
        call = self._call
        publish(call.job, call.config.runtime_dir, self._content())
        if self._profiled and self._checks is not None:
            with (
                contextlib.suppress(HostError),
                spool_folder(call.job, call.config.spool_dir, create=False) as folder,
            ):
                write_file(folder, "checks.json", self._checks_json(self._checks.checked), 0o600)

    def drain_inside(self) -> None:
        """With ``checks.drain_exit``: decide now, so that the job is requeued and not failed."""
        checks, call = self._checks, self._call
        if checks is None or not call.config.checks.drain_exit or not checks.verdict.drains:
            return
        if call.time_left_s() > call.config.checks.settle_s + DRAIN_DECISION_S:
            self._decided = True
            self._drained = checks.drain_now()

    def look_for_wave(self) -> None:
        """A node that fails as many others do stops no job."""
        if self._checks is not None and not self._decided:
            self._checks.look_for_wave()

    def drain_detached(self) -> None:
        """Hand a node's fault, or marks to be taken back, to a process of its own.

        Raises NodeDrainedError when the node was drained inside, OSError.
        """
        if self._drained:
            raise NodeDrainedError(self.line())
        if self._checks is not None and not self._decided:
            self._checks.spawn_drain()

    def line(self) -> str:
        """For the log."""
        checks = [self._checks.summary()] if self._checks is not None else []
        return "; ".join([self._sampler, *checks, *self._request.complaints])

    def _content(self) -> RuntimeContent:
        policy = self._call.config.policy.bad_request
        complaints = self._request.complaints if policy != "record" else ()
        stops = bool(complaints) and policy == "stop"
        lines = list(complaints)
        if self._checks is not None:
            from slurm_io.prolog.job_message import message_lines

            verdict = self._checks.verdict
            stops |= verdict.stops
            lines += message_lines(verdict, self._call.job.node)
        hook = self._profiled and self._call.config.hook.enabled
        return RuntimeContent(
            restart=self._call.job.identity.restart,
            hook_path=attach_folder() if hook else "",
            message="".join(f"{line}\n" for line in lines),
            stop=STOP_EXIT_CODE if stops else None,
        )

    def _checks_json(self, checked: CheckedNode) -> bytes:
        return checks_json(self._call.job, self._request, checked)


def attach_folder() -> str:
    """The folder that goes on the job's PYTHONPATH."""
    return os.path.join(os.path.dirname(os.path.abspath(slurm_io.__file__)), "hook", "attach")


if __name__ == "__main__":
    sys.exit(main())
