"""``slurm-io attach JOBID``: a running Slurm job, watched on every node at once.

Its owner starts one task on each node by ``srun --overlap``. Slurm refuses that to everybody else,
root included (Access/permission denied), so root watches the node it is on: :mod:`.as_root`.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from slurm_io.errors import HostError, SlurmError, UsageError
from slurm_io.model import JobIdentity
from slurm_io.runner.attach.place import (
    AttachOptions,
    close_store,
    open_store,
    say_state,
    stores,
)
from slurm_io.runner.attach.result import conclude, missing_nodes, tell
from slurm_io.runner.attach.step import StepOnNodes, command
from slurm_io.runner.attach.target import user_name
from slurm_io.runner.attach.watching import STOP_SIGNALS, hold_signals, release_signals
from slurm_io.runner.job_store import node_file
from slurm_io.slurm.clean_environment import clean_environment
from slurm_io.slurm.hostlist import compress
from slurm_io.slurm.jobs import Job, cluster_name, find_job, restart_count, state_now, users_words

START_S = 90.0  # until the first node has come: srun, interpreter, a look around
FINISH_S = 120.0  # for sealing and delivery behind the duration
_POLL_S = 0.2
_HAS_NOT_STARTED = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD"}
)


def attach_to_job(given: str, options: AttachOptions) -> None:
    """Watch the job, leave a store, print its report.

    Raises UsageError, HostError, SlurmError, StoreError.
    """
    job = find_job(given)
    refuse_unless_running(job)
    nodes = chosen_nodes(job, options.nodes)
    if os.geteuid() == job.uid:
        _as_owner(job, nodes, options)
        return
    if os.geteuid() == 0:
        from slurm_io.runner.attach.as_root import attach_here

        attach_here(job, identity_of(job), options)
        return
    owner = user_name(job.uid)
    raise HostError(
        f"job {job.name} belongs to {owner}: only {owner} can attach to it, or root on its nodes"
    )


def refuse_unless_running(job: Job) -> None:
    """SlurmError with what to do instead."""
    if job.state in _HAS_NOT_STARTED:
        why = f": {job.reason}" if job.reason else ""
        raise SlurmError(f"job {job.name} has not started ({job.state}{why}): attach when it runs")
    if job.state == "SUSPENDED":
        raise SlurmError(f"job {job.name} is suspended: there is nothing to see until it goes on")
    if job.state != "RUNNING":
        raise SlurmError(
            f"job {job.name} is over ({job.state}): `slurm-io report {job.job_id}` shows what was "
            "recorded of it, if anything was"
        )


def chosen_nodes(job: Job, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """All nodes of the job, or those of `wanted`; UsageError for one that is not the job's."""
    strangers = [node for node in wanted if node not in job.nodes]
    if strangers:
        raise UsageError(
            f"job {job.name} does not run on {compress(strangers)}: it has {compress(job.nodes)}"
        )
    return tuple(node for node in job.nodes if not wanted or node in wanted)


def identity_of(job: Job) -> JobIdentity:
    """The job as stores name it."""
    array, het = job.array, job.het
    name, work_dir = users_words(job.job_id)
    return JobIdentity(
        cluster=cluster_name(),
        job=job.job_id,
        restart=restart_count(job.job_id),
        user=user_name(job.uid),
        uid=job.uid,
        name=name,
        work_dir=work_dir,
        array_job=array[0] if array else None,
        array_task=array[1] if array else None,
        het_job=het[0] if het else None,
        het_component=het[1] if het else None,
        partition=job.partition,
        account=job.account,
        nodes=job.nodes,
        gpus_on_node=job.gpus_per_node,
    )


def _as_owner(job: Job, nodes: tuple[str, ...], options: AttachOptions) -> None:
    store = _open_first(identity_of(job), nodes, options)
    what = f"job {job.name} on {len(nodes)} node{'s' * (len(nodes) != 1)} ({compress(nodes)})"
    tell(f"watching {what} for {options.duration_s:g} s (Ctrl-C ends it early)")
    hold_signals()
    argv = command(job, nodes, store, options)
    with StepOnNodes(argv, clean_environment(os.environ)) as step:
        interrupted = _see_through(step, store, nodes, options.duration_s)
    missing = missing_nodes(store, nodes)
    kept = _joined(store, missing)
    why = f"{step.last_words()}{_where(kept, store)}"
    if len(missing) == len(nodes):
        release_signals()
        if not kept:
            close_store(store)
        if interrupted and not kept:
            raise KeyboardInterrupt
        raise SlurmError(f"no node of job {job.name} recorded anything: {why}")
    if missing:
        tell(f"nothing came from {compress(missing)}: {why}")
    say_state(store, state_now(job))
    conclude(store, options)


def _open_first(identity: JobIdentity, nodes: tuple[str, ...], options: AttachOptions) -> Path:
    """The first store that is free; UsageError when the one given is not."""
    tried = iter(stores(options.output, identity))
    while True:
        try:
            return open_store(next(tried), identity, nodes, options)
        except UsageError:
            if options.output is not None:
                raise


def _see_through(step: StepOnNodes, store: Path, nodes: tuple[str, ...], duration_s: float) -> bool:
    """Until srun has ended; whether a signal came. A signal ends the sampling, a second one the
    step; a step that does not come up, or does not come to its end, is killed."""
    until_s = time.monotonic() + START_S
    came, stops, interrupted = False, 0, False
    while not step.is_over():
        if not came and _joined(store, nodes):
            came, until_s = True, time.monotonic() + duration_s + FINISH_S
        told = signal.sigtimedwait(STOP_SIGNALS, _POLL_S) is not None
        late = time.monotonic() > until_s
        interrupted = interrupted or told
        if told or late:
            stops += 1
            until_s = time.monotonic() + FINISH_S
            if stops > 1 or not _joined(store, nodes):
                break  # leaving the context kills the step
            tell("stopping: the nodes seal and deliver what they have")
            step.ask_to_stop()
    return interrupted


def _where(kept: list[str], store: Path) -> str:
    """How to get at what killed parts had recorded."""
    if not kept:
        return ""
    return f" (what {compress(kept)} had is there: `slurm-io report {store}` on it brings it home)"


def _joined(store: Path, nodes: tuple[str, ...]) -> list[str]:
    """The nodes whose part has begun."""
    return [node for node in nodes if (store / node_file(node)).exists()]
