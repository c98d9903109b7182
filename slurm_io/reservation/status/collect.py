"""Reads everything the spare screen shows, and puts it together. What cannot be read is a note."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from slurm_io.config import Config
from slurm_io.errors import HostError, SlurmError
from slurm_io.reservation.asking import ask_nodes
from slurm_io.reservation.history import History, HistoryRecord
from slurm_io.reservation.model import NodeSays, Pool, Reach
from slurm_io.reservation.pool import read_pool
from slurm_io.reservation.status import gpu_ledger
from slurm_io.reservation.status.estimate import Settings
from slurm_io.reservation.status.fleet import Seen, fleet_of
from slurm_io.reservation.status.model import Status
from slurm_io.reservation.status.run import run_nodes, run_of
from slurm_io.reservation.status.spare import Around, spare_status
from slurm_io.slurm.base import SlurmReader
from slurm_io.slurm.infos import ConfigFacts
from slurm_io.slurm.topology import Topology, read_topology

MOST_PEERS = 8
"""Nodes of the run that are asked, to compare the spares with."""


@dataclass(frozen=True)
class Sources:
    """Where things are read from. `reach` None: no node is asked. `config_path`: the settings'
    file on the nodes, where it is not the usual one."""

    slurm: SlurmReader
    reach: Reach | None
    config: Config
    config_path: str | None = None
    topology: Callable[[], Topology | None] = read_topology
    clock: Callable[[], float] = field(default=time.time)


def read_status(sources: Sources, name: str) -> Status:
    """The screen of reservation `name`.

    Raises UsageError, SlurmError, ConfigError when there is no pool to show; everything else that
    could not be read is unknown, and `notes` say why.
    """
    pool = read_pool(sources.slurm, sources.config, name)
    notes: list[str] = []
    says = _ask(sources, pool)
    history = _history(sources.config, name, notes)
    ledger, problem = gpu_ledger.try_update(sources.config.state_dir, name, says.values())
    notes += [problem] if problem else []
    topology, why_not = _topology(sources)
    run = run_of(pool, sources.config, says)
    around = Around(
        pool=pool,
        run=run,
        history=history,
        ledger=ledger,
        topology=topology,
        no_topology=why_not,
        settings=Settings(_facts(sources.slurm, notes), sources.config.spares),
        rate_bytes_s=_rate(says),
        now_s=sources.clock(),
    )
    spares = tuple(spare_status(node, says.get(node), around) for node in pool.spares)
    seen = Seen(pool, sources.config, run, says, history, around.now_s)
    return Status(
        reservation=name,
        at_s=around.now_s,
        ends_in_s=pool.reservation.left_s(around.now_s),
        is_active=pool.reservation.is_active(around.now_s),
        dataset=pool.settings.dataset,
        content_id=run.content_id,
        content_base=run.base,
        spares=spares,
        fleet=fleet_of(seen, spares),
        notes=tuple(notes),
    )


def _ask(sources: Sources, pool: Pool) -> dict[str, NodeSays]:
    if sources.reach is None:
        return {}
    nodes = (*pool.spares, *run_nodes(pool)[:MOST_PEERS])
    return ask_nodes(sources.reach, pool, sources.config, nodes, sources.config_path)


def _history(config: Config, name: str, notes: list[str]) -> tuple[HistoryRecord, ...]:
    try:
        return History(config.state_dir, name).read()
    except HostError as error:
        notes.append(f"history not read: {error}")
        return ()


def _facts(slurm: SlurmReader, notes: list[str]) -> ConfigFacts | None:
    try:
        return slurm.config()
    except SlurmError as error:
        notes.append(f"Slurm's configuration not read: {error}")
        return None


def _topology(sources: Sources) -> tuple[Topology | None, str]:
    try:
        found = sources.topology()
    except SlurmError as error:
        return None, str(error)
    return found, "" if found is not None else "Slurm has no topology here"


def _rate(says: Mapping[str, NodeSays]) -> float | None:
    """Bytes a second of the copies that nodes have made: the middle one."""
    rates = sorted(
        each.data.rate_bytes_s
        for each in says.values()
        if each.data is not None and each.data.rate_bytes_s
    )
    return rates[len(rates) // 2] if rates else None
