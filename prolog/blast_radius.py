"""Whether a node may be drained, or so many fail alike that the fault lies elsewhere.

A wrong manifest, a dead file server or a bad setting makes every node fail the same check within
seconds; a prolog that drains then empties the cluster. So a node that wants to drain first puts a
mark into its own node record (Comment, or Extra where somebody uses Comment), waits, and reads
all nodes at once. Whoever reads, reads after having written: the third node to announce sees at
least three marks, so never more than the limit drain, in whatever order they come.

A node looks once more after its drain. Who announced before that look is seen by it; who announced
later sees the drain. So whoever completes a wave finds all its drains, and takes them back
(:mod:`slurm_io.prolog.wave`). A mark::

    slurm_io:failing:mounts@1764475273:5f3a9c01,arrays@1764475290:0d1c88e2

is a check, when it failed (epoch s), and a print of the reason that the node's drain would have.
Only text of ours is ever replaced. A node whose two fields are both in use by others can not be
counted by its peers, so it does not drain.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from slurm_io.config import ChecksConfig
from slurm_io.slurm.node_state import NodeState

MARK_PREFIX = "slurm_io:failing:"
REASON_PREFIX = "slurm_io: "
REASON_MAX_CHARS = 200
MARK_LIFE_S = 86400  # a node that lost its memory never takes its mark back
_MARK = re.compile(r"([a-z][a-z0-9_]{0,63})@([0-9]{1,12})(?::([0-9a-f]{8}))?")
_REASON = re.compile(r"slurm_io: ([a-z][a-z0-9_]{0,63}): ")
_UNSAFE = re.compile(r"[^A-Za-z0-9 _./:,()%+@-]")


@dataclass(frozen=True)
class Ruling:
    """What the guard says. `failing` are the nodes that fail the check within the window."""

    may_drain: bool
    failing: tuple[str, ...]
    reason: str

    @property
    def is_wave(self) -> bool:
        """Whether it is forbidden because too many fail alike."""
        return not self.may_drain and bool(self.failing)


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
        return Ruling(False, failing, _too_many(failing, len(known), limit))
    return Ruling(True, failing, "")


def joins_wave(
    check: str, node: str, nodes: Iterable[NodeState], checks: ChecksConfig, now_s: int
) -> bool:
    """Whether `node`, which fails `check` now and has not announced it, is one of too many."""
    known = tuple(nodes)
    others = sum(
        each.name != node and _fails(each, check, now_s, checks.blast_window_s) for each in known
    )
    return others > 0 and others + 1 > drain_limit(len(known), checks)


def is_own_drain(node: NodeState, check: str) -> bool:
    """Whether a node is drained by us for `check`, and nobody has changed the reason since."""
    print_of_mark = _prints(node).get(check)
    return (
        "DRAIN" in node.flags
        and print_of_mark is not None
        and check_of_reason(node.reason) == check
        and print_of_mark == reason_print(node.reason)
    )


def drain_limit(total: int, checks: ChecksConfig) -> int:
    """How many nodes may fail alike and still be drained. One is never called a wave."""
    if checks.blast_nodes == 0:
        return 0
    return min(checks.blast_nodes, max(1, int(checks.blast_share * total)))


def read_marks(node: NodeState) -> dict[str, int]:
    """Check -> when the node announced it, epoch s."""
    return {each[1]: int(each[2]) for each in _found_marks(node)}


def mark_text(marks: Mapping[str, int], node: NodeState, reasons: Mapping[str, str]) -> str:
    """What :func:`read_marks` reads; "" for no marks. `reasons`: check -> the reason of its drain;
    the print of any other mark stays what it is on `node`."""
    prints = {**_prints(node), **{check: reason_print(text) for check, text in reasons.items()}}
    listed = ",".join(
        f"{check}@{at_s}" + (f":{prints[check]}" if check in prints else "")
        for check, at_s in sorted(marks.items())
    )
    return f"{MARK_PREFIX}{listed}" if listed else ""


def reason_print(reason: str) -> str:
    """Eight digits that another text will not have. An admin's hand is to show, no forgery: only
    admins can write either."""
    return f"{zlib.crc32(reason.encode()):08x}"


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


def _found_marks(node: NodeState) -> Iterable[re.Match[str]]:
    for text in (node.comment, node.extra):
        if text.startswith(MARK_PREFIX):
            return _MARK.finditer(text[len(MARK_PREFIX) :])
    return ()


def _prints(node: NodeState) -> dict[str, str]:
    """Check -> print of its drain's reason; none for a mark without."""
    return {each[1]: each[3] for each in _found_marks(node) if each[3]}


def _too_many(failing: tuple[str, ...], total: int, limit: int) -> str:
    shown = ", ".join(failing[:8]) + (" ..." if len(failing) > 8 else "")
    return f"{len(failing)} of {total} nodes fail it alike ({shown}), at most {limit} may drain"


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
