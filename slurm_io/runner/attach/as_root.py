"""Root attaches to somebody's job: the node it is on, and only that one.

Slurm creates a step for nobody but the job's owner, so other nodes are out of reach from here; the
command for them is printed. Started on several nodes with one store, the parts come together in it
as the tasks of ``srun slurm-io run`` do, and whoever comes last makes the report.
"""

from __future__ import annotations

import shlex
import socket
from functools import partial

from slurm_io.errors import HostError, UsageError
from slurm_io.model import JobIdentity
from slurm_io.runner.attach.node import look, record, spec_of_job
from slurm_io.runner.attach.place import AttachOptions, say_state, stores
from slurm_io.runner.attach.result import announce, conclude, tell
from slurm_io.runner.finish import compact_store
from slurm_io.runner.gather import WAIT_S, gather
from slurm_io.runner.job_store import node_file
from slurm_io.runner.place import Place
from slurm_io.slurm.hostlist import compress
from slurm_io.slurm.jobs import Job, state_now

_PATIENCE_S = 5.0


def attach_here(job: Job, identity: JobIdentity, options: AttachOptions) -> None:
    """Watch this node's part of the job, leave a store, print its report.

    Raises UsageError, HostError, StoreError.
    """
    node = _this_node(job, options)
    spec = spec_of_job(identity, node, options)
    seen = look(spec, _PATIENCE_S)
    if not seen.members and node != _host():
        raise HostError(
            f"job {job.name} has no process on this machine as node {node}: run this on {node}"
        )
    others = tuple(each for each in job.nodes if each != node)
    if others:
        tell(_about_others(job, others, options))
    recorded = record(
        spec, seen, stores(options.output, identity), options, job.nodes,
        say_begun=partial(announce, f"job {job.name} on node {node}", seen, options),
    )  # fmt: skip
    _conclude(job, recorded.place, options, recorded.notices)


def _this_node(job: Job, options: AttachOptions) -> str:
    """Slurm's name of this machine: as given, else the host's."""
    if len(options.nodes) > 1:
        raise UsageError("root watches one node at a time, the one it is on: give one with --node")
    if options.nodes:
        return options.nodes[0]
    if _host() in job.nodes:
        return _host()
    raise HostError(
        f"this machine ({_host()}) is none of the nodes of job {job.name} "
        f"({compress(job.nodes)}): run this on one of them, or say with --node which of them it is"
    )


def _about_others(job: Job, others: tuple[str, ...], options: AttachOptions) -> str:
    """What is out of reach, and the command for it."""
    store = "/shared/DIR" if options.output is None else str(options.output.absolute())
    words = ["slurm-io", "attach", job.name, "--node", "%h", "-o", store]
    words += ["--duration", f"{options.duration_s:g}"]
    words += ["--stacks"] if options.stacks else []
    return (
        "Slurm lets only the owner start steps in a job, so root does not reach "
        f"{compress(others)}; at the same time, with a store that all nodes share: "
        f"clush -w {compress(others)} {shlex.quote(shlex.join(words))}"
    )


def _conclude(job: Job, place: Place, options: AttachOptions, notices: tuple[str, ...]) -> None:
    """The report, once the nodes that came into this store have delivered."""
    if len(place.nodes) == 1:
        say_state(place.store, state_now(job))
        conclude(place.store, options, notices)
        return
    made = []

    def work() -> None:
        say_state(place.store, state_now(job))
        conclude(place.store, options, notices, compacts=False)
        made.append(True)

    came = tuple(node for node in place.nodes if (place.store / node_file(node)).exists())
    gather(place.store, place.node, came, WAIT_S, work, lambda: compact_store(place))
    if not made:
        tell(f"another node makes the report: `slurm-io report {place.store}` shows it")


def _host() -> str:
    return socket.gethostname().split(".")[0]
