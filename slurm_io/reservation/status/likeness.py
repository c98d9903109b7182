"""Whether a spare is like the run's nodes: software, firmware, place in the network."""

from __future__ import annotations

from collections import Counter

from slurm_io.reservation.model import NodeSays
from slurm_io.reservation.status.model import Drift
from slurm_io.reservation.status.run import Run
from slurm_io.slurm.topology import Topology


def drift_of(says: NodeSays | None, run: Run) -> tuple[tuple[Drift, ...], str]:
    """What is otherwise than on most of the run's nodes, and what could not be compared.

    A value that neither side could read is no drift and no likeness.
    """
    if says is None or says.problem is not None:
        return (), "not compared: it gave no answer"
    if not run.answered:
        return (), "not compared: no node of the run gave an answer"
    found = tuple(
        Drift(what, value, run.usual[what])
        for what, value in sorted(says.drift.items())
        if value is not None and what in run.usual and value != run.usual[what]
    )
    names = sorted(set(run.usual) | {what for what, value in says.drift.items() if value})
    blank = [what for what in names if says.drift.get(what) is None or what not in run.usual]
    text = f"compared with {run.answered} of {len(run.nodes)} nodes"
    return found, text + (f"; not compared: {', '.join(blank)}" if blank else "")


def switch_of(
    node: str, run: Run, topology: Topology | None, why_not: str
) -> tuple[bool | None, str]:
    """Whether it is on the switch (or in the block) of most of the run's nodes, and in words."""
    if topology is None:
        return None, why_not
    mine = topology.leaf_of.get(node)
    if mine is None:
        return None, "Slurm's topology does not name this node"
    theirs = Counter(topology.leaf_of[each] for each in run.nodes if each in topology.leaf_of)
    if not theirs:
        return None, f"on {mine}; no node of the run is in Slurm's topology"
    if mine in theirs:
        return True, f"on {mine}, as {theirs[mine]} of the run's {len(run.nodes)} nodes"
    most = theirs.most_common(1)[0][0]
    return False, f"on {mine}; most of the run is on {most}"
