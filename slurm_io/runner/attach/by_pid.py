"""``slurm-io attach --pid``: one process and all below it, no Slurm needed."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from slurm_io.errors import HostError
from slurm_io.host.same_process import is_alive
from slurm_io.runner.attach.node import look, record, refuse_empty, spec_of_tree
from slurm_io.runner.attach.place import AttachOptions, identity_of, node_of, say_state, stores
from slurm_io.runner.attach.result import announce, conclude, tell
from slurm_io.runner.attach.target import find_target, yama_notice
from slurm_io.runner.place import node_name
from slurm_io.sampler.relay import Relay

_PATIENCE_S = 2.0


def attach_to_process(pid: int, options: AttachOptions) -> None:
    """Watch the tree of `pid`, leave a store, print its report.

    Raises UsageError, HostError, StoreError.
    """
    target = Relay(Path("/proc"), _refuse_hung, lambda _pid: None).run(lambda: find_target(pid))
    what = f"process {pid}"
    job, node = identity_of(target), node_of(target, node_name(os.environ))
    spec = spec_of_tree(job, node, (target.pid, target.starttime), options)
    seen = look(spec, _PATIENCE_S)
    refuse_empty(seen, what)
    notice = yama_notice()
    if notice is not None:
        tell(notice)
    recorded = record(
        spec, seen, stores(options.output, job), options, (node,),
        say_begun=partial(announce, what, seen, options),
    )  # fmt: skip
    if recorded.watched.why == "ended":
        tell(f"{what} and all below it ended after {recorded.watched.lasted_s:.0f} s")
    alive = is_alive(target.pid, target.starttime)
    say_state(recorded.place.store, "RUNNING" if alive else None)
    conclude(recorded.place.store, options, recorded.notices)


def _refuse_hung(pid: int, file: str) -> None:
    raise HostError(
        f"process {pid} hangs: /proc/{pid}/{file} does not answer, as when execve(2) waits for a "
        "file system that is gone; look for hung mounts on this node"
    )
