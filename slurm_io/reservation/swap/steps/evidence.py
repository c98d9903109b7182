"""Step 0: is a node really bad, and is it the node and not the controller or the site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurm_io.errors import SlurmUnreachable
from slurm_io.reservation.model import NodeSays, Pool
from slurm_io.reservation.pool import is_on_nodes
from slurm_io.reservation.swap.looks import bad_words, is_lost, reason_of, refuse_just_started
from slurm_io.reservation.swap.model import Declined, Nothing
from slurm_io.reservation.swap.step import Case
from slurm_io.slurm.infos import NodeInfo

CONFIRM_S = 5.0
"""Between the two health answers that must both FAIL."""


@dataclass(frozen=True)
class Found:
    """A bad node: what speaks against it, and since when (epoch s; None = Slurm does not say)."""

    node: str
    text: str
    since_s: float | None


class Evidence:
    """Finds the bad node, or looks whether the one that was named is bad."""

    name = "evidence"

    def is_done(self, case: Case) -> str | None:
        """Once found it is not judged again: the fence looks once more."""
        return f"{case.facts.bad}: {case.facts.evidence}" if case.facts.bad else None

    def would(self, case: Case) -> str:
        """The same look, without waiting out the grace."""
        found = _look(case)
        left_s = _grace_left_s(case, found)
        case.learn(bad=found.node, evidence=found.text, failed_at_s=found.since_s)
        wait = f"; would wait {left_s:.0f} s more (spares.grace_s)" if left_s > 0 else ""
        return f"{found.node}: {found.text}{wait}"

    def do(self, case: Case) -> str:
        """Look until the node has been bad for the grace."""
        found = _look(case)
        first_seen_s = case.world.clock.now_s()
        _say_wait(case, found, first_seen_s)
        while (left_s := _grace_left_s(case, found, first_seen_s)) > 0:
            case.keep_lock()
            case.world.clock.sleep(min(left_s, max(case.world.poll_s, 1.0)))
            found = _again(case, found)
        since_s = _since_s(case, found, first_seen_s)
        case.spent("detect", max(0.0, case.world.clock.now_s() - since_s))
        case.learn(found.text, bad=found.node, evidence=found.text, failed_at_s=since_s)
        return f"{found.node}: {found.text}"

    def undo(self, case: Case) -> str | None:
        """It changed nothing."""
        return None


def check_site(case: Case, pool: Pool) -> None:
    """Raises Declined when too many nodes are lost at once."""
    lost = [name for name, node in pool.nodes.items() if is_lost(node)]
    most = case.world.config.spares.standstill_nodes
    if len(lost) > most:
        raise Declined(
            f"{len(lost)} nodes are lost at once ({', '.join(lost[:8])}; spares.standstill_nodes = "
            f"{most}): that is no single node's fault; look at the network and the controller"
        )


def _look(case: Case) -> Found:
    if not case.world.slurm.is_up():
        raise SlurmUnreachable(
            "slurmctld does not answer: what it last said of nodes proves nothing"
        )
    pool = case.world.read_pool()
    refuse_just_started(pool.nodes.values())
    check_site(case, pool)
    wanted = case.wish.bad
    if wanted is None:
        return _first_bad(case, pool)
    node = pool.nodes.get(wanted) or case.world.slurm.node(wanted)
    if words := bad_words(node):
        return _by_slurm(node, words)
    found = _by_health(case, (wanted,))
    if found is None:
        raise Nothing(
            f"{wanted} looks well: Slurm says {node.base}, and no health check FAILs twice"
        )
    return found


def _first_bad(case: Case, pool: Pool) -> Found:
    """A node of a protected job comes first, then nodes of the reservation that are lost; one that
    somebody drained counts only if such a job is on it."""
    in_use = [node for job in pool.protected if is_on_nodes(job) for node in job.nodes]
    members = [name for name in pool.reservation.nodes if name in pool.nodes]
    for name in dict.fromkeys([*in_use, *members]):
        node = pool.nodes.get(name) or case.world.slurm.node(name)
        words = bad_words(node)
        if words and (is_lost(node) or name in in_use):
            return _by_slurm(node, words)
    found = _by_health(case, tuple(dict.fromkeys(in_use)))
    if found is None:
        raise Nothing(
            f"no node of reservation {pool.name} looks bad: name one with --bad to look closer"
        )
    return found


def _by_slurm(node: NodeInfo, words: tuple[str, ...]) -> Found:
    since_s = node.reason.at_s if node.reason is not None else None
    text = f"Slurm says {'+'.join(words)}{reason_of(node)}"
    return Found(node.name, text, None if since_s is None else float(since_s))


def _by_health(case: Case, nodes: tuple[str, ...]) -> Found | None:
    """A check that FAILs in two answers, one after the other."""
    if not nodes:
        return None
    began_s = case.world.clock.now_s()
    first = _failing(case.world.ask(nodes))
    if not first:
        return None
    case.world.clock.sleep(CONFIRM_S)
    second = _failing(case.world.ask(tuple(first)))
    for node, checks in first.items():
        both = sorted(set(checks) & set(second.get(node, {})))
        if both:
            told = f"health check {both[0]} FAILs twice: {second[node][both[0]][:160]}"
            return Found(node, told, began_s)
    return None


def _failing(says: Mapping[str, NodeSays]) -> dict[str, dict[str, str]]:
    found = {
        name: {check: text for check, (answer, text) in each.health.items() if answer == "FAIL"}
        for name, each in says.items()
    }
    return {name: checks for name, checks in found.items() if checks}


def _grace_left_s(case: Case, found: Found, first_seen_s: float | None = None) -> float:
    """A health check that failed twice has waited; for a state, since Slurm or we first saw it."""
    if case.wish.force or found.text.startswith("health"):
        return 0.0
    now_s = case.world.clock.now_s()
    seen_s = now_s if first_seen_s is None else first_seen_s
    since_s = min(seen_s, found.since_s if found.since_s is not None else seen_s)
    return case.world.config.spares.grace_s - (now_s - since_s)


def _say_wait(case: Case, found: Found, first_seen_s: float) -> None:
    left_s = _grace_left_s(case, found, first_seen_s)
    if left_s > 0:
        bad_s = max(0.0, case.world.config.spares.grace_s - left_s)
        case.world.say(
            f"{found.node} has looked bad for {bad_s:.0f} s; waiting {left_s:.0f} s more, "
            "spares.grace_s"
        )


def _since_s(case: Case, found: Found, first_seen_s: float) -> float:
    """The earliest that anybody knows of: Slurm, who asked for the swap, or this one."""
    known = [since_s for since_s in (found.since_s, case.wish.since_s) if since_s is not None]
    return min([*known, first_seen_s])


def _again(case: Case, found: Found) -> Found:
    node = case.world.slurm.node(found.node)
    words = bad_words(node)
    if not words:
        raise Nothing(f"{found.node} came back within the grace: Slurm says {node.base}")
    return _by_slurm(node, words)
