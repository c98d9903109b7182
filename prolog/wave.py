"""Take back the drains of a wave: what was drained before it could be known that many fail alike.

A node drains when it sees no more than the limit fail. If more follow, the drains were wrong as
well: the fault lies elsewhere, and nobody should have to resume nodes by hand for it. Whoever finds
the wave gives them back, on whatever node they are, and only what is provably ours: the reason is
letter for letter the one that the node's own mark has the print of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from slurm_io.errors import HostError, SlurmError
from slurm_io.prolog.blast_radius import is_own_drain
from slurm_io.prolog.drain_site import Site
from slurm_io.prolog.node_memory import recall, remember
from slurm_io.records import replace
from slurm_io.slurm.node_state import HELD_BY_OTHERS, NodeState

# A resumed node does not respond until slurmctld has asked it, and then it can be in a wave again.
_HELD = HELD_BY_OTHERS - {"NOT_RESPONDING"}


def take_back(
    site: Site, check: str, failing: Collection[str], nodes: Iterable[NodeState]
) -> tuple[str, ...]:
    """Resume those of `failing` that we drained for `check`; the names of those resumed.

    `nodes` is where to begin: each is looked at again right before. Raises nothing: what could not
    be given back is in the log.
    """
    ours = [each.name for each in nodes if each.name in failing and is_own_drain(each, check)]
    return tuple(name for name in ours if _give_back(site, check, name))


def _give_back(site: Site, check: str, name: str) -> bool:
    try:
        now = site.nodes.read_one(name)
        if now is None or not is_own_drain(now, check):
            return False  # a peer was faster, or an admin has taken it over
        if held := sorted(now.flags & _HELD):
            site.log.write(f"{check}: {name} stays drained: it is {'+'.join(held)} as well")
            return False
        site.nodes.update(name, {"State": "RESUME"})
        site.log.write(f"{check}: gave {name} back, many nodes fail it alike (was: {now.reason})")
        if name == site.node:
            remember(site.config, name, replace(recall(site.config, name), reason=""))
    except (SlurmError, HostError) as error:
        site.log.write(f"{check}: {name} could not be given back: {error}")
        return False
    return True
