"""The Epilog: ask the sampler to end, start the finisher, return within a second.

The Epilog holds the node, so all that takes time (sealing, delivery, analysis) goes on detached
in :mod:`slurm_io.epilog.finish`.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from slurm_io.epilog import stop_sampler
from slurm_io.epilog.which_run import which_run
from slurm_io.errors import HostError
from slurm_io.host import detached
from slurm_io.host.root_folders import write_file
from slurm_io.slurm.hook_entry import HookCall, run_hook
from slurm_io.slurm.job_places import places_of, spool_folder

_EXIT_CODE = re.compile(r"([0-9]{1,3}):([0-9]{1,3})")


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry of epilog.sh: ``[--config FILE]``."""
    return run_hook("epilog", hand_over, arguments)


def hand_over(call: HookCall) -> str:
    """Stop the sampler and start the finisher; one line for the log. Raises HostError, OSError."""
    restart = which_run(call.job, call.config)
    if restart is None:
        return "nothing to finish: no prolog of ours ran, or all is done"
    job = replace(call.job, identity=replace(call.job.identity, restart=restart))
    try:
        with spool_folder(job, call.config.spool_dir, create=False) as folder:
            asked = stop_sampler.ask(folder)
            write_file(folder, "end.json", end_json(os.environ), 0o600)
        how = f"sampler {'asked to end' if asked else 'not there'}"
    except HostError as error:
        how = f"not profiled ({error})"
    return f"run {restart}: {how}; {_start_finisher(replace(call, job=job))}"


def end_json(environment: Mapping[str, str]) -> bytes:
    """``{ts_ns, exit_code, signal}``; null where Slurm does not say."""
    # EXIT_CODE2 is "code:signal"; EXIT_CODE is a raw wait status.
    found = _EXIT_CODE.fullmatch(environment.get("SLURM_JOB_EXIT_CODE2", ""))
    code, signum = (int(found[1]), int(found[2])) if found else (None, None)
    return json.dumps({"ts_ns": time.time_ns(), "exit_code": code, "signal": signum}).encode()


def _start_finisher(call: HookCall) -> str:
    places = places_of(call.job, call.config.spool_dir, call.config.runtime_dir)
    argv = [
        *(sys.executable, "-I", "-m", "slurm_io.epilog.finish"),
        *(call.config_path, places.spool, places.runtime, str(call.job.identity.restart)),
    ]
    environment = detached.minimal_environment(os.environ)
    if call.config.prolog.systemd == "auto" and detached.has_systemd():
        identity = call.job.identity
        unit = f"slurm-io-finish-{identity.cluster}-{identity.key()}-{call.job.node}"
        if detached.spawn_unit(unit, argv, environment, call.config.epilog.time_limit_s + 60):
            return f"finisher is unit {unit}"
    return f"finisher has pid {detached.spawn(argv, environment)}"


if __name__ == "__main__":
    sys.exit(main())
