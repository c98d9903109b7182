"""When a node must be swapped out, and when nothing may be done at all."""

from __future__ import annotations

from slurm_io.config import SparesConfig
from slurm_io.reservation.pool import is_on_nodes, is_waiting
from slurm_io.reservation.watch.memory import Memory, Spell
from slurm_io.reservation.watch.model import Look, Start, Tell, Wish

RECENT_S = 3600.0
"""A spare that has been bad for longer is known, and no sign of a fault of the whole site."""

_USABLE = ("ready", "syncing", "unknown")
"""States of a spare that do not prove that a job cannot start there."""


def standstill(look: Look, memory: Memory, spares: SparesConfig) -> Tell | None:
    """Why nothing may be done now; None = it may."""
    if look.lock_holder is not None:
        text = (
            f"{look.lock_holder} works on reservation {look.pool.name}: nothing is done meanwhile"
        )
        return Tell("standstill lock", text, event="standstill")
    counting = [node for node in memory.bad if _counts(node, look, memory)]
    if len(counting) > spares.standstill_nodes:
        shown = ", ".join(counting[:8]) + (" …" if len(counting) > 8 else "")
        return Tell(
            "standstill nodes",
            f"{len(counting)} nodes look bad at once ({shown}), more than standstill_nodes = "
            f"{spares.standstill_nodes}: then it is no node's own fault, and nothing is done; look "
            "at the network, the storage and slurmctld",
            person=True,
            event="standstill",
        )
    return None


def takeovers(look: Look, memory: Memory, spares: SparesConfig) -> list[Wish]:
    """One swap at most, for a node that has looked bad for long enough; what else there is to say
    of bad nodes of the reservation."""
    wishes: list[Wish] = []
    for node in look.pool.reservation.nodes:
        spell = memory.bad.get(node)
        if spell is None or look.at_s - spell.since_s < spares.grace_s:
            continue
        if not spell.is_fault:
            wishes.append(_on_purpose(node, spell, look))
        elif job := _job_in_need(node, spell, look, memory):
            wishes += _swap(node, job, spell, look, memory)
        else:
            why = _not_needed(look)
            text = f"{spell.text}: {why}; slurm-io spare remove takes it out"
            wishes.append(Tell(f"spare {node} {spell.since_s:.0f}", text, node, person=True))
    starts = [wish for wish in wishes if isinstance(wish, Start)]
    return [wish for wish in wishes if wish not in starts[1:]]


def _counts(node: str, look: Look, memory: Memory) -> bool:
    spell = memory.bad[node]
    return spell.is_fault and (bool(spell.jobs) or look.at_s - spell.since_s < RECENT_S)


def _job_in_need(node: str, spell: Spell, look: Look, memory: Memory) -> str | None:
    """The protected job that runs on the node, or ran there and goes on; else one that waits, held
    or not, and cannot start without the node or another one in its place: where it ran, Slurm does
    not tell of each."""
    for job in look.pool.protected:
        if job.job_id in spell.jobs or (is_on_nodes(job) and node in job.nodes):
            return job.job_id
        if is_waiting(job) and job.failed_node == node:
            return job.job_id
    for job in look.pool.protected:
        too_few = (job.node_count or 1) > _well_nodes(look, memory)
        if is_waiting(job) and (too_few or node in job.pinned_to):
            return job.job_id
    return None


def _well_nodes(look: Look, memory: Memory) -> int:
    """Nodes of the reservation that protected jobs run on, or may."""
    members = [node for node in look.pool.reservation.nodes if node not in memory.bad]
    return sum(look.spares.get(node, "ready") in _USABLE for node in members)


def _not_needed(look: Look) -> str:
    waiting = [job for job in look.pool.protected if is_waiting(job)]
    if not waiting:
        return "no protected job needs it"
    held = [job.job_id for job in waiting if job.is_held]
    release = f" (job {held[0]} is held: scontrol release {held[0]})" if held else ""
    return f"jobs wait, and there are nodes enough without it{release}"


def _on_purpose(node: str, spell: Spell, look: Look) -> Tell:
    text = (
        f"{spell.text}: no fault of the node is known, so nothing is done; if it is to go: "
        f"slurm-io spare swap {look.pool.name} {node}"
    )
    return Tell(f"purpose {node} {spell.since_s:.0f}", text, node)


def _swap(node: str, job: str, spell: Spell, look: Look, memory: Memory) -> list[Wish]:
    """A trouble is swapped away once; a swap that ended and left the node in is for a person."""
    task = memory.tasks.get(f"swap {node}")
    if task is None or task.since_s != spell.since_s:
        text = f"{spell.text}, for {look.at_s - spell.since_s:.0f} s; job {job} needs another node"
        # --force: the grace was waited out here. --since: so that the swap's record has that time.
        waited = ("--yes", "--force", f"--since={spell.since_s:.3f}")
        arguments = ("spare", "swap", look.pool.name, node, "--job", job, *waited)
        return [Start("swap", node, arguments, text, spell.since_s)]
    if task.pid:
        return []
    name = look.pool.name
    text = (
        f"its swap has ended, {node} is still in reservation {name} and job {job} in need: a "
        f"person must look (slurm-io spare swap {name} --resume goes on with one that was killed)"
    )
    return [Tell(f"unswapped {node} {spell.since_s:.0f}", text, node, person=True)]
