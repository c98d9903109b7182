"""Whether a node may be drained, or so many fail alike that the fault lies elsewhere.

A wrong manifest, a dead file server or a bad setting makes every node fail the same check within
seconds; a prolog that drains then empties the cluster. So a node that wants to drain first puts a
mark into its own node record (Comment, or Extra where somebody uses Comment), waits, and reads
all nodes at once. Whoever reads, reads after having written: the third node to announce sees at
least three marks, so never more than the limit drain, in whatever order they come. A mark::

    slurm_io:failing:mounts@1764475273,arrays@1764475290

Only text of ours is ever replaced. A node whose two fields are both in use by others can not be
counted by its peers, so it does not drain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from slurm_io.config import ChecksConfig
from slurm_io.slurm.node_state import NodeState

MARK_PREFIX = "slurm_io:failing:"
REASON_PREFIX = "slurm_io: "
REASON_MAX_CHARS = 200
MARK_LIFE_S = 86400  # a node that lost its memory never takes its mark back
_MARK = re.compile(r"([a-z][a-z0-9_]{0,63})@([0-9]{1,12})")
_REASON = re.compile(r"slurm_io: ([a-z][a-z0-9_]{0,63}): ")
_UNSAFE = re.compile(r"[^A-Za-z0-9 _./:,()%+@-]")


@dataclass(frozen=True)
class Ruling:
    """What the guard says. `failing` are the nodes that fail the check within the window."""

    may_drain: bool
    failing: tuple[str, ...]
    reason: str


def rule(
    check: str, node: str, nodes: Iterable[NodeState], checks: ChecksConfig, now_s: int
) -> Ruling:
    """Whether `node` may drain for `check`, by what all nodes say now."""
    known = tuple(nodes)
    if not any(each.name == node and check in read_marks(each) for each in known):
        return Ruling(False, (), f"{node} could not be seen among its peers: nobody would count it")
    failing = tuple(
        each.name for each in known if _fails(each, check, now_s, checks.blast_window_s)
    )
    limit = drain_limit(len(known), checks)
    if len(failing) > limit:
        shown = ", ".join(failing[:8]) + (" ..." if len(failing) > 8 else "")
        reason = (
            f"{len(failing)} of {len(known)} nodes fail it alike ({shown}), "
            f"at most {limit} may drain"
        )
        return Ruling(False, failing, reason)
    return Ruling(True, failing, "")


def drain_limit(total: int, checks: ChecksConfig) -> int:
    """How many nodes may fail alike and still be drained. One is never called a wave."""
    if checks.blast_nodes == 0:
        return 0
    return min(checks.blast_nodes, max(1, int(checks.blast_share * total)))


def read_marks(node: NodeState) -> dict[str, int]:
    """Check -> when the node announced it, epoch s."""
    for text in (node.comment, node.extra):
        if text.startswith(MARK_PREFIX):
            found = _MARK.finditer(text[len(MARK_PREFIX) :])
            return {each[1]: int(each[2]) for each in found}
    return {}


def mark_text(marks: Mapping[str, int]) -> str:
    """The inverse of :func:`read_marks`; "" for no marks."""
    listed = ",".join(f"{check}@{at_s}" for check, at_s in sorted(marks.items()))
    return f"{MARK_PREFIX}{listed}" if listed else ""


def mark_field(node: NodeState) -> Literal["Comment", "Extra"] | None:
    """The field that holds our mark or may take it; None when others use both."""
    if node.extra.startswith(MARK_PREFIX):
        return "Extra"
    if not node.comment or node.comment.startswith(MARK_PREFIX):
        return "Comment"
    return None if node.extra else "Extra"


def reason_text(check: str, text: str) -> str:
    """``slurm_io: mounts: what is wrong``: ASCII, without quotes, bounded."""
    plain = " ".join(_UNSAFE.sub("?", text.replace("'", " ").replace('"', " ")).split())
    return f"{REASON_PREFIX}{check}: {plain}"[:REASON_MAX_CHARS].rstrip()


def check_of_reason(reason: str) -> str | None:
    """The check that a drain of ours was for; None when the reason is not ours."""
    found = _REASON.match(f"{reason} ")
    return found[1] if found else None


def _fails(node: NodeState, check: str, now_s: int, window_s: float) -> bool:
    drained = "DRAIN" in node.flags
    marked = read_marks(node).get(check)
    if marked is not None:
        # A drained node waits for its repair, which is no wave. One in service with a mark fails
        # still (or its mark would be gone), however long ago that began.
        return abs(now_s - marked) <= (window_s if drained else max(window_s, MARK_LIFE_S))
    if not drained or check_of_reason(node.reason) != check:
        return False
    return node.reason_at_s is None or abs(now_s - node.reason_at_s) <= window_s
