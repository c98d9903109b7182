"""The Prolog: parse the job's request, build its folders, start the sampler, get out of the way.

Run by prolog.sh as root on every node of every job, so: standard library only, no Slurm command,
a deadline, an own log, and no way of our own to drain a node (:mod:`slurm_io.slurm.hook_entry`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import slurm_io
from slurm_io.errors import SlurmIoError
from slurm_io.host.root_folders import write_file
from slurm_io.prolog import start_sampler
from slurm_io.prolog.checks_file import checks_json
from slurm_io.prolog.request import Request, read_request
from slurm_io.prolog.runtime_folder import RuntimeContent, publish
from slurm_io.slurm.hook_entry import HookCall, run_hook
from slurm_io.slurm.job_places import places_of, spool_folder

STOP_EXIT_CODE = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry of prolog.sh: ``[--config FILE]``."""
    return run_hook("prolog", prepare, arguments)


def prepare(call: HookCall) -> str:
    """Do the prolog's work for one job; one line for the log. Raises HostError, OSError."""
    request = read_request(call.job, call.config)
    done, hook_path = "not profiled: profile=off or [sampler] enabled=false", ""
    if call.config.sampler.enabled and request.spec.profile != "off":
        try:
            done = _profile(call, request)
            hook_path = attach_folder() if call.config.hook.enabled else ""
        except (SlurmIoError, OSError) as error:
            done = f"not profiled: {error}"
    publish(call.job, call.config.runtime_dir, _content(call, request, hook_path))
    return "; ".join([done, *request.complaints])


def attach_folder() -> str:
    """The folder that goes on the job's PYTHONPATH."""
    return os.path.join(os.path.dirname(os.path.abspath(slurm_io.__file__)), "hook", "attach")


def _profile(call: HookCall, request: Request) -> str:
    job, config = call.job, call.config
    places = places_of(job, config.spool_dir, config.runtime_dir)
    spec = start_sampler.sampler_spec(job, places, config)
    with spool_folder(job, config.spool_dir, create=True) as folder:
        write_file(folder, "checks.json", checks_json(job, request), 0o600)
        return start_sampler.start(folder, spec, config, os.environ)


def _content(call: HookCall, request: Request, hook_path: str) -> RuntimeContent:
    policy = call.config.policy.bad_request
    complaints = request.complaints if policy != "record" else ()
    return RuntimeContent(
        restart=call.job.identity.restart,
        hook_path=hook_path,
        message="".join(f"{line}\n" for line in complaints),
        stop=STOP_EXIT_CODE if complaints and policy == "stop" else None,
    )


if __name__ == "__main__":
    sys.exit(main())
