"""All that one look asks for, in order: stand still, swap, keep up spares, fill them."""

from __future__ import annotations

from slurm_io.config import SparesConfig
from slurm_io.reservation.watch.filler import fillings
from slurm_io.reservation.watch.memory import Memory
from slurm_io.reservation.watch.model import Look, Start, Wish
from slurm_io.reservation.watch.takeover import standstill, takeovers
from slurm_io.reservation.watch.upkeep import upkeep


def wishes_of(look: Look, memory: Memory, spares: SparesConfig) -> list[Wish]:
    """What should be said and done. While a swap is due or runs, spares are left alone."""
    if any(task.pid and task.work == "swap" for task in memory.tasks.values()):
        return []
    still = standstill(look, memory, spares)
    if still is not None:
        return [still]
    wishes = takeovers(look, memory, spares)
    if any(isinstance(wish, Start) for wish in wishes):
        return wishes
    return [*wishes, *upkeep(look, memory), *fillings(look, memory)]
