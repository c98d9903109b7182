"""What srun starts on every node of a job: ``python -m slurm_io.runner.attach.node_part``.

Usage: ``node_part STORE DURATION_S [load-hook] [stacks]``. The store is one that the attach on the
other end of srun has opened; job and nodes stand in it. Signals that mean the end stop the sampling
and let the delivery finish: SIGUSR1 comes from the attach, SIGTERM from Slurm when the job ends.
Sealing is done here, the analysis is not: it needs 150 MB and more, and here they would be the
job's.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from slurm_io.errors import HostError, SlurmIoError
from slurm_io.runner.attach.node import look, record, spec_of_job
from slurm_io.runner.attach.place import AttachOptions, read_store
from slurm_io.runner.attach.target import yama_notice
from slurm_io.runner.attach.watching import hold_signals
from slurm_io.runner.place import node_name

_PATIENCE_S = 5.0
LOAD_HOOK = "load-hook"
STACKS = "stacks"


def main(arguments: list[str]) -> int:
    """Record this node; the exit code. Complaints begin with ``slurm-io: <node>:``."""
    hold_signals()
    node = node_name(os.environ)
    try:
        store, duration_s = Path(arguments[0]), float(arguments[1])
        options = AttachOptions(
            duration_s, load_hook=LOAD_HOOK in arguments, stacks=STACKS in arguments
        )
        notices = _record(store, node, options)
    except (SlurmIoError, OSError) as error:
        _say(node, str(error))
        return 3
    for notice in notices:
        _say(node, notice)
    return 0


def _record(store: Path, node: str, options: AttachOptions) -> tuple[str, ...]:
    if not store.is_dir():
        raise HostError(
            f"{store} is not to be seen on this node: give a folder on a file system that all "
            "nodes of the job share (-o)"
        )
    job, nodes = read_store(store)
    if node not in nodes:
        raise HostError(f"this node is none of those that {store} waits for ({', '.join(nodes)})")
    spec = spec_of_job(job, node, options, os.environ.get("SLURM_JOB_SLUID"))
    seen = look(spec, _PATIENCE_S)
    notices = [notice for notice in (yama_notice(),) if notice is not None]
    if not seen.members:
        notices.append("no process of the job was found here when the attach began")
    recorded = record(spec, seen, [store], options, nodes, joins=True)
    return (*notices, *recorded.notices)


def _say(node: str, text: str) -> None:
    print(f"slurm-io: {node}: {' '.join(text.split())}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
