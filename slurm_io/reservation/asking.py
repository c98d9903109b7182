"""Asks nodes what they say of themselves: ``slurm-io spare node-report`` on each, through Slurm."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

from slurm_io.config import Config
from slurm_io.reservation.model import Answer, NodeSays, Pool, Reach
from slurm_io.reservation.node_report.says import no_answer, parse_says
from slurm_io.slurm.infos import NodeInfo

_ROOM_S = 5.0
"""What a question takes beside the report itself: the job's start, its end, its output."""
_LEAST_S = 5.0
_SAID_CHARS = 200
_BELIEVED_LEVEL = 1
"""Of data that a user's process vouches for."""


def ask_nodes(
    reach: Reach,
    pool: Pool,
    config: Config,
    nodes: Iterable[str],
    config_path: str | None = None,
) -> dict[str, NodeSays]:
    """What each of `nodes` says, within about spares.ask_s; every node is in the answer.

    Nodes that Slurm cannot reach are not asked. `config_path`: the settings' file on the nodes,
    where it is not the usual one. Raises nothing for what one node did.
    """
    wanted = tuple(dict.fromkeys(nodes))
    found = {node: _not_asked(node, pool.nodes.get(node)) for node in wanted}
    awake = tuple(node for node, says in found.items() if says is None)
    inside = tuple(node for node in awake if node in pool.reservation.nodes)
    outside = tuple(node for node in awake if node not in pool.reservation.nodes)
    arguments = _arguments(pool, config, config_path)
    for some, reservation in ((inside, pool.name), (outside, None)):
        if some:
            answers = reach.ask(some, arguments, config.spares.ask_s, reservation=reservation)
            found |= {node: _says(node, answers.get(node)) for node in some}
    return {node: says for node, says in found.items() if says is not None}


def _arguments(pool: Pool, config: Config, config_path: str | None) -> tuple[str, ...]:
    limit_s = max(_LEAST_S, config.spares.ask_s - _ROOM_S)
    settings = pool.settings
    dataset = (f"--dataset={settings.dataset}", f"--tier={settings.tier}")
    return (
        "spare",
        "node-report",
        "--json",
        f"--limit={limit_s:g}",
        *(dataset if settings.dataset else ()),
        *((f"--config={config_path}",) if config_path else ()),
    )


def _not_asked(node: str, info: NodeInfo | None) -> NodeSays | None:
    """Why there is no use in asking; None where there is."""
    if info is None:
        return no_answer(node, time.time(), "not asked: it is in no part of this pool")
    if info.base in ("DOWN", "UNKNOWN", "FUTURE") or not info.is_responding:
        words = "+".join((info.base, *info.flags))
        return no_answer(node, time.time(), f"not asked: Slurm says {words}")
    return None


def _says(node: str, answer: Answer | None) -> NodeSays:
    now_s = time.time()
    if answer is None:
        return no_answer(node, now_s, "no answer came for it")
    if answer.rc != 0:
        said = answer.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        why = answer.problem or f"its report ended with exit code {answer.rc}"
        return no_answer(node, now_s, ": ".join((why, *(each[:_SAID_CHARS] for each in said))))
    says = parse_says(node, now_s, answer.stdout)
    return says if answer.uid is None else _of_user(says, answer.uid)


def _of_user(says: NodeSays, uid: int) -> NodeSays:
    """What a user's own process told is no reason to fence a node, and proves no disk read."""
    by = f"told by a process of uid {uid}, not believed"
    health = {
        check: ("UNKNOWN", f"{by}: {text}") if answer == "FAIL" else (answer, text)
        for check, (answer, text) in says.health.items()
    }
    data = says.data and replace(says.data, level=min(says.data.level, _BELIEVED_LEVEL))
    return replace(says, health=health, data=data, told_by=uid)
