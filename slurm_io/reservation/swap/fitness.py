"""Whether one spare can take over now, why not, and how soon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from slurm_io.config import Config
from slurm_io.reservation.model import NodeSays, Pool
from slurm_io.reservation.pool import jobs_on
from slurm_io.reservation.status.judge import judge_data
from slurm_io.reservation.swap.looks import reason_of, unusable_words
from slurm_io.reservation.swap.world import World
from slurm_io.slurm.infos import JobInfo, NodeInfo

_OUTSIDE_S = 1.0
_UNLOOKED_S = 0.5


@dataclass(frozen=True)
class Fitness:
    """`unfit`: why not, the weightiest first. `rank_s`: seconds until it is free, roughly.
    `is_own`: unfit as a spare, but Slurm may start the job there: it may be one of its own nodes.
    """

    node: str
    unfit: tuple[str, ...] = ()
    why: str = ""
    rank_s: float = 0.0
    order: int = 0
    is_busy: bool = False
    is_own: bool = False

    @property
    def is_fit(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.unfit


def fitness_of(
    world: World,
    pool: Pool,
    name: str,
    job: JobInfo | None,
    says: Mapping[str, NodeSays],
    stay: tuple[str, ...],
    clear_s: float,
) -> Fitness:
    """Judge one spare of the pool.

    Args:
        stay: nodes of the run, which it must be like.
        clear_s: seconds that filler takes to leave a spare.
    """
    node, said = pool.nodes[name], says.get(name)
    is_inside = name in pool.reservation.nodes
    by_slurm = (*_state(node), *_places(node, job), *_jobs(pool, name, job))
    peers = [says[each] for each in stay if each in says]
    config, now_s = world.config, world.clock.now_s()
    by_itself = (*_answer(said, config, now_s), *_data(said, pool, config, peers))
    by_itself = (*by_itself, *_drift(said, peers))
    busy = any(name in each.nodes for each in pool.filler)
    level = said.data.level if said is not None and said.data is not None else None
    words = [
        "in the reservation" if is_inside else "standby, outside the reservation",
        "busy with filler" if busy else "idle",
        "no dataset is set" if not pool.settings.dataset else f"dataset ready, level {level}",
    ]
    rank_s = (clear_s if busy else 0.0) + (0.0 if is_inside else _OUTSIDE_S)
    if level is not None and level < 2:
        rank_s += _UNLOOKED_S
    return Fitness(
        node=name,
        unfit=(*by_slurm, *by_itself),
        why=", ".join(words),
        rank_s=rank_s,
        order=list(pool.nodes).index(name),
        is_busy=busy,
        is_own=bool(by_itself) and not by_slurm and is_inside and not busy,
    )


def _state(node: NodeInfo) -> tuple[str, ...]:
    words = unusable_words(node)
    return (f"Slurm says {'+'.join(words)}{reason_of(node)}",) if words else ()


def _places(node: NodeInfo, job: JobInfo | None) -> tuple[str, ...]:
    """What keeps Slurm from ever starting this job there."""
    if job is None:
        return ()
    found = []
    if job.partition and not set(job.partition.split(",")) & set(node.partitions):
        found.append(f"not in the job's partition {job.partition}")
    if node.name in job.excludes:
        found.append("the job excludes it (--exclude)")
    if job.features and not set("()[]|*!,:").intersection(job.features):
        lacks = sorted(set(job.features.split("&")) - set(node.active_features or node.features))
        if lacks:
            found.append(f"lacks the node feature {lacks[0]} that the job asks for")
    return tuple(found)


def _jobs(pool: Pool, name: str, job: JobInfo | None) -> tuple[str, ...]:
    filler = {each.job_id for each in pool.filler}
    end = pool.settings.filler_end
    found = []
    for each in jobs_on(pool, name):
        if job is not None and each.job_id == job.job_id:
            continue
        if each.job_id not in filler:
            found.append(f"runs job {each.job_id}, which does not give way")
        elif end == "requeue" and (each.batch is False or each.may_requeue is False):
            found.append(f"runs filler job {each.job_id}, which cannot be requeued")
    return tuple(found)


def _answer(said: NodeSays | None, config: Config, now_s: float) -> tuple[str, ...]:
    if said is None or said.problem:
        return (f"gave no answer: {said.problem if said is not None else 'not asked'}",)
    if now_s - said.asked_at_s > config.spares.health_age_s:
        return (f"its health is {now_s - said.asked_at_s:.0f} s old",)
    return tuple(
        f"health check {check} FAILs: {text[:120]}"
        for check, (answer, text) in sorted(said.health.items())
        if answer == "FAIL"
    )


def _data(
    said: NodeSays | None, pool: Pool, config: Config, peers: list[NodeSays]
) -> tuple[str, ...]:
    if not pool.settings.dataset or said is None or said.problem:
        return ()
    wanted = wanted_version(pool, config) or _usual(
        each.data.content_id for each in peers if each.data is not None
    )
    judged = judge_data(said.data, wanted, said.unread.get("data"))
    return () if judged is None else (f"dataset {pool.settings.dataset}: {judged[1]}",)


def wanted_version(pool: Pool, config: Config) -> str | None:
    """The content id that the site names; None = the manifest's, whatever it is."""
    name, _, version = pool.settings.dataset.partition("@")
    if version:
        return version
    found = config.datasets.get(name)
    return found.content_id or None if found is not None else None


def _drift(said: NodeSays | None, peers: list[NodeSays]) -> tuple[str, ...]:
    """What it has otherwise than most nodes of the run; what cannot be read is no drift."""
    if said is None:
        return ()
    found = []
    for what, value in sorted(said.drift.items()):
        usual = _usual(each.drift.get(what) for each in peers)
        if value is not None and usual is not None and value != usual:
            found.append(f"has {what} {value}, the run has {usual}")
    return tuple(found)


def _usual(values: Iterable[str | None]) -> str | None:
    """The most frequent of the known values; None without any."""
    known = Counter(each for each in values if each is not None)
    return known.most_common(1)[0][0] if known else None
