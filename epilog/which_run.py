"""Which run of a job an Epilog is for.

When a job is requeued, Slurm counts the restart before it runs the Epilog of the run that ended
(seen on 22.05.8), so SLURM_JOB_RESTART_COUNT is one too high there. A node never runs two runs of
a job at once, so what the prolog left on the node tells which one ends.
"""

from __future__ import annotations

import contextlib
import os

from slurm_io.config import Config
from slurm_io.errors import HostError
from slurm_io.host.root_folders import child_folder, read_file, trusted_folder
from slurm_io.slurm.environment import HookJob


def which_run(job: HookJob, config: Config) -> int | None:
    """Restart count of the run on this node; None when there is nothing of this job here."""
    restart = running_restart(config.runtime_dir, job.node, job.identity.job)
    return _newest_in_spool(job, config) if restart is None else restart


def running_restart(runtime_dir: str, node: str, job: str) -> int | None:
    """What the runtime folder says; None without one. Nothing but root's own file is believed."""
    with contextlib.suppress(HostError, ValueError), contextlib.ExitStack() as stack:
        top = stack.enter_context(trusted_folder(runtime_dir))
        node_folder = child_folder(top, node, runtime_dir)
        stack.callback(os.close, node_folder)
        folder = child_folder(node_folder, job, runtime_dir)
        stack.callback(os.close, folder)
        return int(read_file(folder, "restart") or b"")
    return None


def _newest_in_spool(job: HookJob, config: Config) -> int | None:
    """The youngest run, up to the one Slurm names, that this node still holds data of."""
    prefix = f"{job.identity.job}."
    with contextlib.suppress(HostError, OSError), contextlib.ExitStack() as stack:
        top = stack.enter_context(trusted_folder(config.spool_dir))
        cluster = child_folder(top, job.identity.cluster, config.spool_dir)
        stack.callback(os.close, cluster)
        found = [
            int(name.removeprefix(prefix))
            for name in os.listdir(cluster)
            if name.startswith(prefix) and name.removeprefix(prefix).isdecimal()
        ]
        here = [
            restart
            for restart in found
            if restart <= job.identity.restart and _has_node(cluster, f"{prefix}{restart}", job)
        ]
        return max(here, default=None)
    return None


def _has_node(cluster: int, name: str, job: HookJob) -> bool:
    try:
        os.stat(f"{name}/{job.node}", dir_fd=cluster, follow_symlinks=False)
    except OSError:
        return False
    return True
