"""F14: the same check found the same fault on many nodes.

What it flags
-------------
One check of the prolog answered FAIL, or DEGRADED, on more nodes of the job than chance explains:
more than two, or more than a twentieth of those that looked. One node alone is never called that,
and a job of one or two nodes shows no pattern.

Why it matters
--------------
Nodes break one at a time. What breaks on many of them at once is something they share: a manifest
that was built anew, a file server, a switch, a setting of the check. Who drains nodes for it
empties the cluster and mends nothing.

Evidence
--------
The answers of the job's nodes, compared by check, by whose fault it is, and by answer, and not by
their words, which differ from node to node. All prologs of a job run when it starts, so they are of
the same minutes. Nodes where the same check found nothing are counted beside them. The second,
independent signal: the prolog's own guard, which counts nodes of the whole cluster, knew of a wave
and had turned a stop or a drain into a warning.

What to do
----------
Drain none of these nodes. Look at what they share, the manifest and what the job asked for first
where the fault is the job's and no node passes, else the file server, the network and the settings
of the check. Mend it there once; the next prologs find all nodes well.

Known false alarms
------------------
Nodes that do share a fault of their own, such as a batch of drives or a kernel that was rolled out
to all: then the cause is that roll-out, and draining one by one is still wrong. Nodes that were
added without the dataset fail alike as well; F11 then names them, because others have it. Answers
that are recorded only (any user can cause them) do not count. Shared data is looked at by one node
of a job, so that a fault there is one answer and not many.

Thresholds
----------
``thresholds.alike_nodes`` (2) nodes and ``thresholds.alike_share`` (5 %) of the nodes that looked:
more than either, as the guard counts that forbids drains; at least three nodes looked, which no key
changes.
"""

from __future__ import annotations

from slurm_io.analysis.checks import MAX_NODES_NAMED, NO_ANSWERS
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.plain_words import count_of, one_line, plain_commands, some_nodes
from slurm_io.analysis.rules.base import RULES, Answer, Evidence, Finding, Needs, Place, sure
from slurm_io.analysis.same_faults import Alike, nodes_that_looked, same_faults

_MOST_FINDINGS = 4
_WHOSE = {"node": "the nodes' own fault", "job": "the job's fault", "shared": "a shared service's"}
_LOOK_AT = {
    "job": "look at the manifest, at what the job asked for, and at where the copies come from",
    "shared": "look at the file server and the network to it",
}
_LOOK_AT_STAGING = (
    "look at what they share and the others lack: how they were filled, what they read from"
)
_LOOK_AT_NODES = "look at what they share: file server, network, a roll-out, the check's settings"


@RULES.register("f14_same_fault_everywhere")
class SameFaultEverywhere:
    """A fault of many nodes is a fault of none of them."""

    code = "F14"
    title = "the same fault on many nodes"
    needs: Needs = "nothing"

    def judge(self, picture: Picture) -> Answer:
        """By the answers of the job's prologs."""
        limits = picture.thresholds.rules.alike
        seen = nodes_that_looked(picture.store)
        if not seen:
            return Answer("not enough evidence", NO_ANSWERS)
        if seen < limits.least_nodes:
            return Answer("quiet", f"checks of {count_of(seen, 'node')} show no pattern")
        found = same_faults(picture.store, limits)
        if not found:
            most = limits.most(seen)
            return Answer("quiet", f"no check failed alike on more than {most} of {seen} nodes")
        findings = tuple(_finding(one, seen, limits.most(seen)) for one in found[:_MOST_FINDINGS])
        return Answer("fired", findings=findings)


def _finding(alike: Alike, seen: int, most: int) -> Finding:
    check = one_line(alike.check, 64)
    return Finding(
        rule="F14",
        severity="warn",
        confidence=sure(1 + bool(alike.in_wave)),
        title=f"check {check} answers {alike.answer} on {len(alike.nodes)} of {seen} nodes",
        lost_gpu_s=None,  # a fault of the start, not of the training
        where=Place(nodes=alike.nodes[:MAX_NODES_NAMED]),
        evidence=tuple(_evidence(alike, check, seen, most)),
        remedy=f"drain none of these nodes for it; {_where_to_look(alike)}",
        commands=plain_commands(alike.first.get("commands")),
    )


def _where_to_look(alike: Alike) -> str:
    if alike.kind == "job" and alike.passed:  # then the manifest and the wish are right
        return _LOOK_AT_STAGING
    return _LOOK_AT.get(alike.kind, _LOOK_AT_NODES)


def _evidence(alike: Alike, check: str, seen: int, most: int) -> list[Evidence]:
    count = len(alike.nodes)
    passed = count_of(alike.passed, "node") if alike.passed else "no node"
    whose = _WHOSE.get(alike.kind, "whose fault it is was not told")
    found = [
        Evidence(
            f"{check} answered {alike.answer} ({whose}) on {count} of {seen} nodes: "
            f"{some_nodes(alike.nodes)}",
            "nodes_alike", count, most + 1,
        ),
        Evidence(
            f"{passed} passed the same check", "nodes_passed", alike.passed
        ),
    ]  # fmt: skip
    if alike.in_wave:
        waved = len(alike.in_wave)
        text = f"the guard against waves had {waved} of them only warn: many more nodes fail alike"
        found.append(Evidence(text, "nodes_in_wave", waved, 1))
    told = one_line(str(alike.first.get("text")), 200)
    found.append(Evidence(f"{some_nodes(alike.nodes[:1])} says: {told}", "first_answer"))
    return found
