"""Which checks of the prologs failed alike on many nodes.

Answers are compared by check, whose fault it is, and answer. Their words are of no use for that:
they name the node, so each is another one (:func:`.checks.merged_checks` keeps them apart).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_io.analysis.checks import each_result
from slurm_io.analysis.facts import mapping
from slurm_io.analysis.inputs import StoreView
from slurm_io.analysis.rule_limits import SameFault

_FAULTS = ("FAIL", "DEGRADED")
_STOPPING = ("stop", "drain")


@dataclass(frozen=True)
class Alike:
    """One fault on many nodes, by their names. `passed`: nodes on which the check found nothing.
    `in_wave`: those whose prolog only warned because the guard knew of many. `first`: the result
    of the first node."""

    check: str
    kind: str
    answer: str
    nodes: tuple[str, ...]
    passed: int
    in_wave: tuple[str, ...]
    first: Mapping[str, Any]


@dataclass
class _Seen:
    """By check: who passed; by fault: who has it."""

    nodes: set[str] = field(default_factory=set)
    passed: dict[str, dict[str, bool]] = field(default_factory=lambda: defaultdict(dict))
    faults: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = field(
        default_factory=lambda: defaultdict(dict)
    )


def nodes_that_looked(store: StoreView) -> int:
    """Nodes whose prolog left a result."""
    return len({node for node, _ in each_result(store)})


def same_faults(store: StoreView, limits: SameFault) -> tuple[Alike, ...]:
    """Faults of more nodes than `limits` call chance, the most nodes first. Of fewer nodes than
    its `least_nodes` that says nothing: whoever asks looks first."""
    seen = _seen(store)
    most = limits.most(len(seen.nodes))
    found = [
        Alike(
            check=check,
            kind=kind,
            answer=answer,
            nodes=tuple(by_node),
            passed=sum(seen.passed[check].values()),
            in_wave=tuple(n for n, one in by_node.items() if _was_in_wave(store, n, one)),
            first=next(iter(by_node.values())),
        )
        for (check, kind, answer), by_node in seen.faults.items()
        if len(by_node) > most
    ]
    return tuple(sorted(found, key=lambda one: (-len(one.nodes), one.check, one.kind, one.answer)))


def _seen(store: StoreView) -> _Seen:
    seen = _Seen()
    for node, result in each_result(store):
        seen.nodes.add(node)
        if result.get("record_only") is True:
            continue  # any user can cause those
        check, answer = result["check"], result["answer"]
        passed = seen.passed[check]
        passed[node] = passed.get(node, True) and answer == "OK"
        if answer in _FAULTS:
            kind = result.get("kind")
            fault = check, kind if isinstance(kind, str) else "", answer
            seen.faults[fault].setdefault(node, result)
    return seen


def _was_in_wave(store: StoreView, node: str, result: Mapping[str, Any]) -> bool:
    """Whether a fault that stops or drains was only warned of, and not because the job said so."""
    if result["answer"] != "FAIL" or result.get("policy") not in _STOPPING:
        return False
    asked = mapping(mapping(store.nodes[node].checks).get("request")).get("check")
    of_job = result.get("kind") != "node" and asked == "warn"
    return result.get("action") == "warn" and not of_job
