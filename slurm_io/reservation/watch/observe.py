"""From a look to the memory: which nodes look bad since when, and which do no longer."""

from __future__ import annotations

from typing import Any

from slurm_io.reservation.model import NodeSays
from slurm_io.reservation.pool import is_on_nodes
from slurm_io.reservation.watch.memory import Failing, Memory, Spell
from slurm_io.reservation.watch.model import Look, Tell
from slurm_io.reservation.watch.signs import NEEDED_FAILS, sign_of
from slurm_io.slurm.infos import NodeInfo

GAP_PERIODS = 10
PROOF_LEVEL = 4
"""Every byte read: what a disk holds that was in a broken node is not known otherwise."""


def observe(look: Look, memory: Memory, period_s: float) -> list[Tell]:
    """Take one look into the memory; what began and what is over, to be told."""
    if look.at_s - memory.last_look_s > GAP_PERIODS * period_s:
        memory.forget_signs()
    memory.last_look_s = look.at_s
    for says in look.says.values():
        _take_health(says, memory)
        if _is_proof(says, memory.distrusted.get(says.node)):
            del memory.distrusted[says.node]
    _notice_who_left(look, memory)
    tells = []
    for node in (*look.pool.nodes.values(), *look.left.values()):
        tells += _take_node(node, look, memory)
    _forget_strangers(look, memory)
    return tells


def fails_of(memory: Memory, node: str) -> dict[str, str]:
    """Checks that FAILed in enough answers, with the last text of each."""
    failing = memory.failing.get(node)
    if failing is None:
        return {}
    often = [check for check, count in failing.counts.items() if count >= NEEDED_FAILS]
    return {check: failing.texts.get(check, "") for check in often}


def _take_health(says: NodeSays, memory: Memory) -> None:
    """Count only answers that are new; one that did not come says nothing about health."""
    before = memory.failing.get(says.node)
    if says.problem is not None or (before and before.asked_at_s >= says.asked_at_s):
        return
    fails = {check: text for check, (answer, text) in says.health.items() if answer == "FAIL"}
    if not fails:
        memory.failing.pop(says.node, None)
        return
    counts = before.counts if before else {}
    memory.failing[says.node] = Failing(
        says.asked_at_s,
        {check: min(counts.get(check, 0) + 1, NEEDED_FAILS) for check in fails},
        {check: text[:200] for check, text in fails.items()},
    )


def _is_proof(says: NodeSays, since_s: float | None) -> bool:
    """Whether all of its data was read again after the node last looked bad."""
    data = says.data
    if since_s is None or data is None or data.age_s is None or data.level < PROOF_LEVEL:
        return False
    return says.asked_at_s - data.age_s > since_s


def _take_node(node: NodeInfo, look: Look, memory: Memory) -> list[Tell]:
    sign = sign_of(node, fails_of(memory, node.name))
    spell = memory.bad.get(node.name)
    jobs = [
        job.job_id for job in look.pool.protected if is_on_nodes(job) and node.name in job.nodes
    ]
    if sign is None:
        memory.recorded.pop(node.name, None)
        memory.carried[node.name] = jobs
        return [] if spell is None else [_well_again(node.name, look.at_s, memory)]
    if sign.is_fault:
        memory.distrusted[node.name] = look.at_s
    if spell is not None and spell.is_fault == sign.is_fault:
        spell.text = sign.text
        spell.jobs = spell.jobs or jobs
        return []
    carried = jobs or (spell.jobs if spell is not None else memory.carried.get(node.name, []))
    memory.bad[node.name] = Spell(look.at_s, sign.text, sign.is_fault, carried)
    return [Tell(f"bad {node.name}", sign.text, node.name, event="looks-bad")]


def _well_again(node: str, at_s: float, memory: Memory) -> Tell:
    spell = memory.bad.pop(node)
    lasted_s = at_s - spell.since_s
    text = f"looks well again after {lasted_s:.0f} s"
    return Tell(f"well {node} {at_s:.0f}", text, node, event="looks-well")


def _notice_who_left(look: Look, memory: Memory) -> None:
    for node in memory.bad:
        if node not in look.pool.nodes and node not in memory.left:
            memory.left[node] = look.at_s
    for node in look.pool.nodes:
        memory.left.pop(node, None)


def _forget_strangers(look: Look, memory: Memory) -> None:
    """Nodes that are of the pool no more, and did not leave it as bad ones."""
    known = {*look.pool.nodes, *memory.left}
    tables: tuple[dict[str, Any], ...] = (
        memory.bad, memory.failing, memory.carried, memory.fillers, memory.distrusted,
        memory.recorded,
    )  # fmt: skip
    for table in tables:
        for node in [each for each in table if each not in known]:
            del table[node]
