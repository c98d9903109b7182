"""Keeping spares worth their name: staged again when stale, proven when they were broken, enough
of them in number."""

from __future__ import annotations

from slurm_io.reservation.pool import is_waiting, jobs_on
from slurm_io.reservation.watch.memory import Memory
from slurm_io.reservation.watch.model import Look, Start, Tell, Wish
from slurm_io.slurm.hostlist import natural_key


def upkeep(look: Look, memory: Memory) -> list[Wish]:
    """One node at a time of each kind of work: a copy takes the link and the healthy peers' disks,
    and a mistake must not reach every spare at once."""
    if not look.pool.settings.dataset:
        return _missing(look, memory, [])
    works = [start for node in look.spares if (start := _stage(node, look, memory)) is not None]
    return [*works[:1], *_missing(look, memory, works)]


def is_spare_now(node: str, look: Look, memory: Memory) -> bool:
    """Whether it can take over now."""
    return look.spares.get(node) == "ready" and node not in memory.distrusted


def _stage(node: str, look: Look, memory: Memory) -> Start | None:
    """Staging also proves what is there: files that are whole are not copied again."""
    if node in memory.bad or not _may_be_worked_on(node, look):
        return None
    distrusted = look.spares[node] == "ready" and not is_spare_now(node, look, memory)
    if look.spares[node] != "stale" and not distrusted:
        return None
    since_s = memory.distrusted[node] if distrusted else 0.0
    task = memory.tasks.get(f"stage {node}")
    if task is not None and (task.pid or look.at_s < task.not_before_s):
        return None
    why = "it was bad since its data was last read in full" if distrusted else "its data is stale"
    return Start("stage", node, _mending(node, distrusted, look), why, since_s)


def _mending(node: str, distrusted: bool, look: Look) -> tuple[str, ...]:
    """A standby node stays outside the reservation: others may use it until a swap takes it in."""
    name, settings = look.pool.name, look.pool.settings
    if node in look.pool.reservation.nodes:
        return ("spare", "add", name, node)
    if distrusted:
        return ("spare", "add", name, node, "--stay-outside")
    of = ("--reservation", name, "--tier", settings.tier)
    return ("dataset", "stage", settings.dataset, "--to", node, *of)


def _may_be_worked_on(node: str, look: Look) -> bool:
    """Idle, or with jobs that give way; and not about to be taken by a protected job."""
    if any(is_waiting(job) for job in look.pool.protected):
        return False
    filler = {job.job_id for job in look.pool.filler}
    return all(job.job_id in filler for job in jobs_on(look.pool, node))


def _missing(look: Look, memory: Memory, works: list[Start]) -> list[Wish]:
    """Too few spares: a node that was repaired comes back as one, else somebody is told."""
    needed = look.pool.settings.needed
    coming = {task.node for task in works}
    coming |= {key.split(" ")[1] for key, task in memory.tasks.items() if task.pid}
    alive = [
        node
        for node, state in look.spares.items()
        if node not in memory.bad
        and (state in ("syncing", "busy") or node in coming or is_spare_now(node, look, memory))
    ]
    if len(alive) >= needed:
        return []
    for node in sorted(look.left, key=natural_key):
        info, task = look.left[node], memory.tasks.get(f"add {node}")
        if node in memory.bad or not info.is_free:
            continue
        if task is None or (not task.pid and look.at_s >= task.not_before_s):
            text = f"{len(alive)} of {needed} spares; it is repaired, its data is proven first"
            arguments = ("spare", "add", look.pool.name, node)
            return [Start("add", node, arguments, text, memory.left[node])]
        return []
    text = (
        f"{len(alive)} of {needed} spares of reservation {look.pool.name} can take over and no "
        "repaired node is there: slurm-io spare status tells why, slurm-io spare add brings one in"
    )
    return [Tell("too few spares", text, person=True)]
