"""Who is a spare of what: one reservation as Slurm has it now, seen with the site's settings."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping

from slurm_io.config import Config, ReservationConfig
from slurm_io.errors import ConfigError, SlurmError, SlurmNotFound, UsageError
from slurm_io.reservation.model import Pool
from slurm_io.slurm.base import SlurmReader
from slurm_io.slurm.hostlist import expand, natural_key
from slurm_io.slurm.infos import JobInfo, NodeInfo, Reason, ReservationInfo

OWN_JOBS = "slurm_io"
"""What the names of our own jobs begin with: they ask nodes and stage; nobody waits for them."""
ON_NODES = frozenset({"RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING", "RESIZING", "STAGE_OUT"})
WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})


def read_pool(slurm: SlurmReader, config: Config, name: str) -> Pool:
    """The pool of reservation `name`.

    While a protected job waits to start (again), the nodes it will take are idle and so are among
    the spares: see :func:`waiting_nodes`. Raises UsageError for a reservation without settings,
    SlurmNotFound for one that Slurm does not have, SlurmError for one that is over and for no
    answer, ConfigError for a standby list that is none.
    """
    settings = settings_of(config, name)
    reservation = _reservation(slurm, name)
    standby = _standby(settings, name)
    nodes = _nodes(slurm.nodes(), (*reservation.nodes, *standby))
    of_interest = [job for job in slurm.jobs() if _concerns(job, name, nodes)]
    filler = tuple(job for job in of_interest if is_filler(job, settings))
    others = [job for job in of_interest if job not in filler and not is_own(job)]
    protected = tuple(job for job in others if is_of(job, name))
    taken = {node for job in protected if is_on_nodes(job) for node in job.nodes}
    return Pool(
        name=name,
        settings=settings,
        reservation=reservation,
        nodes=nodes,
        protected=protected,
        filler=filler,
        foreign=tuple(job for job in others if not is_of(job, name)),
        spares=tuple(each for each in nodes if each not in taken),
    )


def settings_of(config: Config, name: str) -> ReservationConfig:
    """The section [reservation.NAME]. Raises UsageError that names those there are."""
    if name in config.reservations:
        return config.reservations[name]
    known = ", ".join(sorted(config.reservations)) or "none"
    raise UsageError(
        f"the configuration has no section for reservation {name[:64]!a}: add [reservation.NAME] "
        "with the dataset of its nodes to /etc/slurm_io/config.toml or the file of --config, or "
        f"name another reservation (there are: {known})"
    )


def only_reservation(config: Config) -> str:
    """The one that has settings. Raises UsageError when there is none, or several."""
    names = sorted(config.reservations)
    if len(names) == 1:
        return names[0]
    if not names:
        raise UsageError(
            "the configuration has no section [reservation.NAME]: add one to "
            "/etc/slurm_io/config.toml, or give the file with --config"
        )
    raise UsageError(f"name the reservation: one of {', '.join(names)}")


def is_on_nodes(job: JobInfo) -> bool:
    """Whether it holds nodes now; one that is ending still does."""
    return job.state in ON_NODES or "COMPLETING" in job.flags


def is_waiting(job: JobInfo) -> bool:
    """Whether it will start, or start again, by itself or when it is released."""
    return job.state in WAITING and not is_on_nodes(job)


def is_of(job: JobInfo, name: str) -> bool:
    """Whether it runs in this reservation; a waiting job may name several."""
    return name in (job.reservation or "").split(",")


def is_filler(job: JobInfo, settings: ReservationConfig) -> bool:
    """Whether it gives way to a swap."""
    return job.qos in settings.filler_qos or job.partition in settings.filler_partitions


def is_own(job: JobInfo) -> bool:
    """Whether we submitted it. The name alone proves nothing: any user may choose it."""
    return job.name.startswith(OWN_JOBS) and job.uid in (0, os.geteuid())


def waiting_nodes(pool: Pool) -> int:
    """Nodes that protected jobs wait for: spares in so many places are spoken for."""
    return sum(job.node_count or 1 for job in pool.protected if is_waiting(job))


def jobs_on(pool: Pool, node: str) -> tuple[JobInfo, ...]:
    """Jobs that hold this node now, of whatever kind but our own."""
    every = (*pool.protected, *pool.filler, *pool.foreign)
    return tuple(job for job in every if is_on_nodes(job) and node in job.nodes)


def _concerns(job: JobInfo, name: str, nodes: Mapping[str, NodeInfo]) -> bool:
    if is_waiting(job):
        return is_of(job, name)
    return is_on_nodes(job) and (is_of(job, name) or not nodes.keys().isdisjoint(job.nodes))


def _reservation(slurm: SlurmReader, name: str) -> ReservationInfo:
    try:
        found = slurm.reservation(name)
    except SlurmNotFound as error:
        raise SlurmNotFound(
            f"Slurm has no reservation {name!a}: it has ended, was deleted or never made; make it "
            "with Nodes= and a long Duration, or correct the name of [reservation.…]"
        ) from error
    now_s = time.time()
    left_s = found.left_s(now_s)
    if left_s is not None and left_s <= 0:
        raise SlurmError(
            f"reservation {name!a} ended {-left_s:.0f} s ago: its nodes are no longer kept; "
            "make it again"
        )
    return found


def _standby(settings: ReservationConfig, name: str) -> tuple[str, ...]:
    try:
        return expand(settings.standby)
    except SlurmError as error:
        raise ConfigError(f"[reservation.{name}] standby: {error}") from error


def _nodes(every: Iterable[NodeInfo], wanted: Iterable[str]) -> dict[str, NodeInfo]:
    known = {node.name: node for node in every}
    names = sorted(set(wanted), key=natural_key)
    return {name: known.get(name) or _not_known(name) for name in names}


def _not_known(name: str) -> NodeInfo:
    """A standby node that Slurm has lost: shown as unknown, and no reason to show nothing."""
    return NodeInfo(name, "UNKNOWN", ("NOT_RESPONDING",), Reason("Slurm has no node of this name"))
