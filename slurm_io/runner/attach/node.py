"""One node's part of an attach: look who is there, sample, bring the recording home."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_io.errors import HostError, StoreError
from slurm_io.model import STACKS_SHARE, JobIdentity, SamplerSpec
from slurm_io.runner.attach.load_hook import HookInside, load_into
from slurm_io.runner.attach.place import AttachOptions, take
from slurm_io.runner.attach.result import why_not
from slurm_io.runner.attach.survey import Survey, survey
from slurm_io.runner.attach.watching import (
    GRACE_S,
    Watched,
    hold_signals,
    start_sampler,
    watch,
)
from slurm_io.runner.finish import bring_home
from slurm_io.runner.place import Place, give_back
from slurm_io.slurm.gpu_words import gpus_of_user

_IDLE_EXIT_S = 30.0  # a job without a process for so long is asked after


@dataclass(frozen=True)
class Recorded:
    """What is in the store now. `notices`: what the person in front of us should know."""

    place: Place
    watched: Watched
    seen: Survey
    notices: tuple[str, ...]


def spec_of_job(
    job: JobIdentity, node: str, options: AttachOptions, sluid: str | None = None
) -> SamplerSpec:
    """The sampler of a Slurm job's part on one node; `sluid` only from Slurm's own mouth."""
    return SamplerSpec(
        sluid=sluid,
        job=job,
        node=node,
        mode="slurm",
        spool="",
        ring_dir="",
        stacks_share=_stacks_share(options),
        attached_by=os.getpid(),
        idle_exit_s=_IDLE_EXIT_S,
        max_lifetime_s=options.duration_s + GRACE_S,
    )


def spec_of_tree(
    job: JobIdentity, node: str, root: tuple[int, int], options: AttachOptions
) -> SamplerSpec:
    """The sampler of one process (pid, starttime) and all below it."""
    return SamplerSpec(
        job=job,
        node=node,
        mode="user",
        spool="",
        ring_dir="",
        stacks_share=_stacks_share(options),
        root_pid=root[0],
        root_starttime=root[1],
        attached_by=os.getpid(),
        max_lifetime_s=options.duration_s + GRACE_S,
    )


def _stacks_share(options: AttachOptions) -> float:
    return STACKS_SHARE if options.stacks else 0.0


def record(
    spec: SamplerSpec,
    seen: Survey,
    stores: Iterable[Path],
    options: AttachOptions,
    nodes: tuple[str, ...],
    *,
    joins: bool = False,
    say_begun: Callable[[], None] = lambda: None,
) -> Recorded:
    """Sample as long as asked for and deliver into the first free one of `stores`.

    `say_begun` is called once nothing can be refused any more.
    Raises UsageError, StoreError, HostError; nothing of ours is left on the node then. Signals that
    mean the end are held from here on: they end the sampling, not the delivery.
    """
    hold_signals()
    hook = load_into(seen, spec.job.uid) if options.load_hook else HookInside()
    try:
        told = replace(
            spec,
            ring_dir=hook.rings or seen.ring_dir or "",
            reads_along=not hook.rings,
            gpus=gpus_of_user(seen.environ),
        )
        place = take(told, stores, options, nodes, joins=joins)
        say_begun()
        watched = watch(start_sampler(place.spool), options.duration_s)
    finally:
        left = hook.leave()
    return Recorded(place, watched, seen, (*hook.notices, *left, *_deliver(place, watched)))


def look(spec: SamplerSpec, patience_s: float) -> Survey:
    """The job's processes here, before anything is made or started."""
    return survey(spec, patience_s)


def _deliver(place: Place, watched: Watched) -> tuple[str, ...]:
    """Bring the spool home; what went wrong on the way without spoiling it."""
    failure = why_not(place.spool) if watched.why == "failed" else None
    has_facts = (place.spool / "meta.json").exists()
    if failure is not None and not has_facts:
        shutil.rmtree(place.spool, ignore_errors=True)
        give_back(place)
        raise failure
    if not bring_home(place):
        raise StoreError(f"cannot deliver: the data stays in {place.spool}, see {_log_of(place)}")
    notices = [str(failure)] if failure is not None else []
    if _log_of(place).exists():
        notices.append(f"something went wrong on our side, see {_log_of(place)}")
    return tuple(notices)


def _log_of(place: Place) -> Path:
    return place.store / "run.log"


def refuse_empty(seen: Survey, what: str) -> None:
    """HostError when nobody was found."""
    if not seen.members:
        raise HostError(f"{what} has no process on this node that can be looked at")
