"""What may be done to a reservation's nodes, and in which words each version wants to hear it.

Rules, each from Slurm's source or tried (docs/development/slurm-access.md):

- A reservation with REPLACE or REPLACE_DOWN takes no list of nodes, and one made with a node count
  and no flags has its failed nodes replaced by Slurm with any idle one, which has no dataset.
- ``Nodes=`` (empty) refills it with random nodes: never sent.
- 22.05 has no ``Nodes+=``: the whole list is sent. From 23.02.4 on one ``Nodes=+a,-b`` is atomic.
- IGNORE_JOBS would take a node from under somebody's job: never set as a side effect.
- "infinite" is 365 days.
"""

from __future__ import annotations

from slurm_io.errors import SlurmRefused
from slurm_io.slurm.base import NewReservation
from slurm_io.slurm.hostlist import compress
from slurm_io.slurm.infos import NodeInfo, ReservationInfo
from slurm_io.slurm.version import ATOMIC_NODES, Version

LONGEST_S = 365 * 24 * 3600
_REPLACING = ("REPLACE", "REPLACE_DOWN")
_FOLLOWING = ("PART_NODES", "ALL_NODES")
_KEEPING = frozenset({"SPEC_NODES", "STATIC"})


def wanted_nodes(
    found: ReservationInfo, add: tuple[str, ...], remove: tuple[str, ...]
) -> tuple[str, ...]:
    """The list after the change, in the old order, new ones last. Raises SlurmRefused."""
    both = sorted(set(add) & set(remove))
    if both:
        raise SlurmRefused(f"{compress(both)} is to be added and removed: say one")
    strangers = [each for each in remove if each not in found.nodes]
    if strangers:
        raise SlurmRefused(
            f"{compress(strangers)} is not in reservation {found.name}, whose nodes are "
            f"{compress(found.nodes)}: read it again"
        )
    kept = [each for each in found.nodes if each not in remove]
    wanted = tuple(dict.fromkeys([*kept, *add]))
    if not wanted:
        raise SlurmRefused(
            f"reservation {found.name} would have no node left, and Slurm would fill it with "
            "random ones: delete it instead"
        )
    return wanted


def refuse_unfit(found: ReservationInfo, members: tuple[NodeInfo, ...]) -> None:
    """Raises SlurmRefused, with the reason, for a reservation whose nodes must not be set."""
    for flag in _REPLACING:
        if flag in found.flags:
            raise SlurmRefused(
                f"reservation {found.name} has {flag}: Slurm chooses its nodes and refuses a list "
                "of ours; make one with explicit nodes"
            )
    following = [flag for flag in _FOLLOWING if flag in found.flags]
    if following:
        raise SlurmRefused(
            f"reservation {found.name} has {following[0]}: it follows its partition, and a list of "
            "nodes would end that; make one with explicit nodes"
        )
    if not _KEEPING & set(found.flags):
        raise SlurmRefused(
            f"reservation {found.name} was made with a number of nodes, without flags: Slurm "
            "replaces a failed node with any idle one, staged or not; make one with Nodes=, or "
            "with STATIC_ALLOC"
        )
    cores = [node.cores for node in members if node.name in found.nodes]
    if None not in cores and len(cores) == len(found.nodes) and found.cores is not None:
        whole = sum(each or 0 for each in cores)
        if found.cores < whole:
            raise SlurmRefused(
                f"reservation {found.name} holds {found.cores} of {whole} cores of its nodes: a "
                "list of nodes would make them whole ones; make one with whole nodes"
            )


def refuse_changed(found: ReservationInfo, expected: ReservationInfo) -> None:
    """Raises SlurmRefused when somebody changed it since `expected` was read."""
    for what in ("start_s", "flags", "users", "accounts"):
        if getattr(found, what) != getattr(expected, what):
            raise SlurmRefused(
                f"reservation {found.name} is another one than was read before ({what} differs): "
                "somebody changed it; look at it and start again"
            )
    if set(found.nodes) != set(expected.nodes):
        raise SlurmRefused(
            f"reservation {found.name} has {compress(found.nodes)} now, not "
            f"{compress(expected.nodes)}: somebody changed it; look at it and start again"
        )


def nodes_argument(
    version: Version, wanted: tuple[str, ...], add: tuple[str, ...], remove: tuple[str, ...]
) -> str:
    """``Nodes=…`` as this controller understands it. `add` and `remove` must be real changes."""
    if version < ATOMIC_NODES:
        return f"Nodes={compress(wanted)}"
    return "Nodes=" + ",".join([*(f"+{each}" for each in add), *(f"-{each}" for each in remove)])


def refuse_bad_wish(wanted: NewReservation) -> None:
    """Raises SlurmRefused for a reservation that must not be made so."""
    if not wanted.nodes:
        raise SlurmRefused(
            f"reservation {wanted.name} without nodes: Slurm would choose random ones; name them"
        )
    if not wanted.users and not wanted.accounts:
        raise SlurmRefused(f"reservation {wanted.name} for nobody: name its users or accounts")
    if wanted.duration_s is not None and not 60 <= wanted.duration_s <= LONGEST_S:
        raise SlurmRefused(
            f"reservation {wanted.name} for {wanted.duration_s} s: give 60 s to 365 days, and "
            "extend it in time"
        )
