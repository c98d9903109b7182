"""What the job was given on its nodes: CPUs and memory. Advice must fit into it, or say what to ask
for.

CPUs: those that its ranks may run on (``cpus_allowed`` of meta.json), at most the node's. Memory:
the limit of the job's control group, else the node's.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.facts import mapping, ranks_of, whole
from slurm_io.analysis.inputs import NodeView
from slurm_io.analysis.picture import Picture

_USUAL_WORKERS, _MOST_WORKERS = 8, 16


@dataclass(frozen=True)
class Cpus:
    """CPUs of one node. `node`: all of it; `job`: what the job may use, `rank`: what each of its
    `ranks` may. None = not known."""

    node: int | None
    job: int | None
    rank: int | None
    ranks: int

    @property
    def told(self) -> bool:
        """Whether the job's part is known, not only the node's size."""
        return self.job is not None

    def each(self) -> int | None:
        """CPUs for each rank: its part of the job's, at most what it may run on."""
        have = [one for one in (self.node, self.job) if one is not None]
        if not have or self.ranks < 1:
            return None
        part = min(have) // self.ranks
        return max(1, min(part, self.rank) if self.rank is not None else part)

    def each_of_node(self) -> int | None:
        """CPUs for each rank if the job had the whole node."""
        if self.node is None or self.ranks < 1:
            return None
        return max(1, self.node // self.ranks)


@dataclass(frozen=True)
class WorkerAdvice:
    """How many loader workers a rank can have. `text` says what is short, "" where nothing is."""

    workers: int
    text: str
    commands: tuple[str, ...]


def cpus_of(picture: Picture, name: str) -> Cpus:
    """CPUs of the node called `name`."""
    view = picture.store.nodes[name]
    trained = sum(process.node == name for process in picture.timeline.processes)
    told = mapping(view.meta.get("cpus_allowed"))
    return Cpus(
        node=_count(view.meta.get("ncpu")),
        job=_count(told.get("node")),
        rank=_count(told.get("rank")),
        ranks=trained or len(ranks_of(view)),
    )


def fitting_workers(picture: Picture) -> int:
    """Loader workers for each rank that the job's CPUs can run, one CPU left to the rank itself.

    Of the node with fewest CPUs a rank; 8 where no node told its number, at most 16.
    """
    each = [one for one in (each_cpus.each() for each_cpus in _all(picture)) if one is not None]
    return _workers(min(each)) if each else _USUAL_WORKERS


def advise_workers(picture: Picture) -> WorkerAdvice:
    """More workers where the job has CPUs for them; else what to ask Slurm for; else nothing."""
    fitting, now = fitting_workers(picture), workers_now(picture)
    nodes = _all(picture)
    if not nodes or not all(one.told for one in nodes):
        return WorkerAdvice(fitting, "", (_loader(fitting), _cpus(fitting + 1)))
    have = min((one.each() or 1 for one in nodes), default=1)
    if have > 1 and (now is None or now < fitting):
        return WorkerAdvice(fitting, "", (_loader(fitting),))
    most = [one for one in (each.each_of_node() for each in nodes) if one is not None]
    larger = min(_MOST_WORKERS, min(most) - 1) if most else 0
    has = f"a rank has {have} CPU{'s' * (have != 1)} and {now or 0} workers"
    if larger > max(now or 0, have - 1):
        text = f"{has}: ask for more CPUs"
        return WorkerAdvice(larger, text, (_cpus(larger + 1), _loader(larger)))
    return WorkerAdvice(now or 0, f"{has}, all the node can give: only cheaper work helps", ())


def workers_now(picture: Picture) -> int | None:
    """Workers of the rank that has most; None where no loader told."""
    found = [workers_by_rank(view) for view in picture.store.nodes.values()]
    return max((number for one in found for number in one.values()), default=None)


def workers_by_rank(view: NodeView) -> dict[str, int]:
    """pid -> workers of its largest loader, of the ranks whose hook told."""
    told = view.meta.get("loaders")
    most: dict[str, int] = {}
    for one in map(mapping, told if isinstance(told, list) else ()):
        number, pid = whole(one.get("num_workers")), str(one.get("pid"))
        if number is not None and number >= 0:
            most[pid] = max(most.get(pid, 0), number)
    return most


def batch_sizes(view: NodeView) -> list[int]:
    """Samples in a batch, of the loaders that told."""
    told = view.meta.get("loaders")
    sizes = [
        whole(one.get("batch_size")) for one in map(mapping, told if isinstance(told, list) else ())
    ]
    return [size for size in sizes if size is not None and size > 0]


def memory_limit_bytes(picture: Picture) -> tuple[int | None, int | None]:
    """(limit of the job's control group, memory of the node), of the node with least; None = none
    told."""
    rows = picture.tables.frame("cgroup", ("mem_limit_bytes",))["mem_limit_bytes"].drop_nulls()
    limits = [int(one) for one in rows.filter(rows > 0).unique().to_list()]
    nodes = [_count(view.meta.get("mem_total_bytes")) for view in picture.store.nodes.values()]
    return min(limits, default=None), min((one for one in nodes if one), default=None)


def held_bytes() -> pl.Expr:
    """Memory of a control group that the kernel cannot take back: no page cache."""
    return pl.col("mem_anon_bytes") + pl.col("mem_shmem_bytes").fill_null(0)


def _all(picture: Picture) -> list[Cpus]:
    """Of the nodes with ranks."""
    nodes = [cpus_of(picture, name) for name in picture.store.nodes]
    return [one for one in nodes if one.ranks > 0]


def _workers(cpus: int) -> int:
    return max(1, min(_MOST_WORKERS, cpus - 1))


def _loader(workers: int) -> str:
    return f"DataLoader(..., num_workers={workers}, prefetch_factor=4, persistent_workers=True)"


def _cpus(number: int) -> str:
    return f"#SBATCH --cpus-per-task={number}"


def _count(value: object) -> int | None:
    number = whole(value)
    return number if number is not None and number > 0 else None
