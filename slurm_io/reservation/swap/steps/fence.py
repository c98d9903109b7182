"""Step 4: the bad node gets no new job, and keeps none.

Drained, with a reason of ours unless somebody else drained it; never powered off. A silent node
with the job on it is also set down, or Slurm would wait for its answer before it lets go of the
job.
"""

from __future__ import annotations

from slurm_io.errors import SlurmNotFound
from slurm_io.reservation.swap.looks import REASON, bad_words, has_left, is_ours
from slurm_io.reservation.swap.model import Declined
from slurm_io.reservation.swap.step import Case
from slurm_io.slurm.infos import NodeInfo

_LONGEST = 400
# A node that answers again is well again; what a person or a check said of it stays said.
_SEEN_BY_SLURM = ("Slurm says DOWN", "Slurm says NOT_RESPONDING")


class Fence:
    """Drains the bad node."""

    name = "fence"

    def is_done(self, case: Case) -> str | None:
        """Drained by whomever, and no job hangs on a node that cannot let go of it."""
        node = _node(case)
        if not node.is_drained or _must_go_down(case, node):
            return None
        by = "by this swap" if is_ours(node) else f"already, its reason stays{_reason(node)}"
        return f"{node.name} is drained {by}; {_processes(case)}"

    def would(self, case: Case) -> str:
        """What would be set."""
        node = _node(case)
        words = [] if node.is_drained else [f'drain {node.name}: "{_text(case, node)}"']
        if _must_go_down(case, node):
            words.append(f"set {node.name} down: it answers nobody and the job hangs on it")
        return "; ".join(words)

    def do(self, case: Case) -> str:
        """Raises Declined when the node came back before anything was changed."""
        node = _node(case)
        if not bad_words(node) and not case.facts.evidence.startswith("health"):
            raise Declined(f"{node.name} came back to service meanwhile: Slurm says {node.base}")
        if not node.is_drained:
            case.intend(f"drain {node.name}", drained=True)
            case.world.slurm.drain(node.name, _text(case, node))
        if _must_go_down(case, node):
            case.intend(f"set {node.name} down")
            case.world.slurm.down(node.name, _text(case, node))
        return f"{node.name} is drained; {_processes(case)}"

    def undo(self, case: Case) -> str | None:
        """Only a drain of ours, only from a node that is well."""
        if not case.facts.drained or case.facts.bad is None:
            return None
        node = _node(case)
        if not is_ours(node):
            return f"{node.name} is not drained by us any more: left as it is"
        sick = [word for word in bad_words(node) if word != "DRAIN"]
        if sick or not case.facts.evidence.startswith(_SEEN_BY_SLURM):
            why = "+".join(sick) or case.facts.evidence
            return f"{node.name} stays drained: it is not well ({why[:120]})"
        case.intend(f"resume {node.name}")
        case.world.slurm.resume(node.name)
        case.learn(drained=False)
        return f"{node.name} is back in service"


def _node(case: Case) -> NodeInfo:
    assert case.facts.bad is not None
    return case.world.slurm.node(case.facts.bad)


def _must_go_down(case: Case, node: NodeInfo) -> bool:
    if node.is_responding or node.base == "DOWN" or case.facts.job is None:
        return False
    return not _has_left(case)


def _has_left(case: Case) -> bool:
    assert case.facts.job is not None and case.facts.bad is not None
    try:
        return has_left(case.world.slurm, case.facts.job, case.facts.bad)
    except SlurmNotFound:
        return True


def _processes(case: Case) -> str:
    """Whether an old process could still write a checkpoint."""
    if case.facts.job is None or _has_left(case):
        return "nothing of the job runs there"
    return "the job leaves it when it is requeued"


def _text(case: Case, node: NodeInfo) -> str:
    """A reason of ours that keeps what a person wrote."""
    to = f" to {case.facts.spare}" if case.facts.spare else ""
    job = f", job {case.facts.job}" if case.facts.job else ""
    text = f"{REASON}{to}{job}: {case.facts.evidence}"
    if node.reason is not None and node.reason.text not in text:
        text += f"; was: {node.reason.text}"
    return "".join(each if each.isprintable() and each.isascii() else "?" for each in text)[
        :_LONGEST
    ]


def _reason(node: NodeInfo) -> str:
    return f" ({node.reason.text[:160]})" if node.reason is not None else ""
