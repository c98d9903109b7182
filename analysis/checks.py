"""What the prologs found, merged over the nodes: one entry for each distinct answer.

A thousand nodes with the same answer are one entry; a store may hold anything, so what is no
result is left out and nothing here fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slurm_io.analysis.inputs import StoreView

MAX_ENTRIES = 200
MAX_NODES_NAMED = 64
NO_ANSWERS = "no prolog left its answers (checks.json)"
_WORST_FIRST = {"FAIL": 0, "DEGRADED": 1, "UNKNOWN": 2, "OK": 3}
_SAME = ("check", "answer", "kind", "subject", "text", "policy", "action")
_OF_THE_FIRST = ("facts", "not_looked_at", "commands")


def merged_checks(store: StoreView) -> list[dict[str, Any]]:
    """Entries ``{check, answer, kind, subject, text, policy, action, nodes, node_count, facts,
    not_looked_at, commands}``, the worst first; facts and commands are those of the first node."""
    merged: dict[tuple[str, ...], dict[str, Any]] = {}
    for node, result in each_result(store):
        key = tuple(str(result.get(name)) for name in _SAME)
        entry = merged.setdefault(key, _entry(result))
        entry["node_count"] += 1
        if len(entry["nodes"]) < MAX_NODES_NAMED:
            entry["nodes"].append(node)
    worst = sorted(merged.values(), key=lambda each: (_WORST_FIRST[each["answer"]], each["check"]))
    return worst[:MAX_ENTRIES]


def each_result(store: StoreView) -> Iterator[tuple[str, dict[str, Any]]]:
    """(node, result) of each result of each node, none merged, by the nodes' names. A result has
    a `check`, a `text` and one of the four answers; its other fields may hold anything."""
    for node, view in sorted(store.nodes.items()):
        for result in _results(view.checks):
            yield node, result


def _results(checks: object) -> list[dict[str, Any]]:
    listed = checks.get("checks") if isinstance(checks, dict) else None
    if not isinstance(listed, list):
        return []
    return [
        each
        for each in listed
        if isinstance(each, dict)
        and isinstance(each.get("check"), str)
        and isinstance(each.get("text"), str)
        and isinstance(each.get("answer"), str)
        and each["answer"] in _WORST_FIRST
    ]


def _entry(result: dict[str, Any]) -> dict[str, Any]:
    subject = result.get("subject")
    return {
        **{name: result.get(name) for name in _SAME},
        "subject": subject if isinstance(subject, str) else None,
        "nodes": [],
        "node_count": 0,
        **{name: result.get(name) for name in _OF_THE_FIRST},
    }
