"""What could be seen of the job, and what not, with the reason: the report never hides a hole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slurm_io.analysis.facts import sources_of, whole
from slurm_io.analysis.inputs import NodeView
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rules.base import Answer

_MAX_MISSING = 40


@dataclass(frozen=True)
class Missing:
    """One thing that was not seen."""

    source: str
    reason: str


def coverage(picture: Picture, answers: Mapping[str, Answer]) -> dict[str, Any]:
    """The report's ``coverage``. hook, stacks, gpu, waits are on | partial | off."""
    store, timeline = picture.store, picture.timeline
    missing = _unique(
        [
            *_nodes(picture),
            *_sources(picture),
            *_hook(picture),
            *(Missing(what, why) for what, why in picture.tables.damage),
            *_rules(answers),
        ]
    )
    workers = [view.meta.get("workers_seen") for view in store.nodes.values()]
    counted = [number for number in map(whole, workers) if number is not None]
    return {
        "nodes_expected": list(store.nodes_expected),
        "nodes_seen": sorted(store.nodes),
        "ranks_seen": len(timeline.processes),
        "workers_seen": sum(counted) if counted else None,
        "hook": _hook_state(picture),
        "stacks": _table_state(picture, "stacks"),
        "gpu": "on" if _measured(picture) else _table_state(picture, "gpu"),
        "waits": _waits_state(picture),
        "gaps_s": round(sum(process.gap_s for process in timeline.processes), 3),
        "missing": [{"source": one.source, "reason": one.reason} for one in missing],
    }


def _unique(found: list[Missing]) -> list[Missing]:
    return list(dict.fromkeys(found))[:_MAX_MISSING]


def _nodes(picture: Picture) -> list[Missing]:
    store = picture.store
    absent = [
        Missing(f"node {name}", "delivered nothing: it failed, or its sampler never started")
        for name in store.nodes_expected
        if name not in store.nodes
    ]
    return absent + [one for view in store.nodes.values() for one in _node(view)]


def _node(view: NodeView) -> list[Missing]:
    found = [Missing(f"node {view.node}", _damage(item)) for item in view.damage]
    meta = view.meta
    if not meta:
        return [*found, Missing(f"node {view.node}", "meta.json is missing or damaged")]
    if meta.get("clean_end") is False:
        why = meta.get("end_reason") or "the sampler was killed, the last 2 s may be missing"
        found.append(Missing(f"node {view.node}", f"did not end cleanly: {why}"))
    dropped = (view.self_cost or {}).get("dropped_rows")
    if isinstance(dropped, int) and dropped > 0:
        why = (view.self_cost or {}).get("drop_reason") or "no reason given"
        found.append(Missing(f"node {view.node}", f"{dropped} rows were dropped: {why}"))
    return found


def _damage(item: object) -> str:
    if isinstance(item, dict):
        words = [f"{value}" for value in item.values() if isinstance(value, (str, int, float))]
        return f"damaged: {' '.join(words)}"[:300]
    return f"damaged: {item}"[:300]


def _sources(picture: Picture) -> list[Missing]:
    """Collectors that were off or partial; on many nodes the same line stands once."""
    found = []
    for view in picture.store.nodes.values():
        for name, state in sorted(sources_of(view).items()):
            if state.get("state") in ("off", "partial"):
                reason = state.get("reason") or "no reason given"
                found.append(Missing(name, f"{state['state']}: {reason}"[:300]))
    return found


def _hook(picture: Picture) -> list[Missing]:
    timeline = picture.timeline
    if not timeline.processes:
        why = (
            "no process reported a batch: not PyTorch, python -I/-S/-E, PYTHONPATH reset by the "
            "job, or the job ended first; wrap other loaders with slurm_io.hook.watch(loader)"
        )
        return [Missing("hook", why)]
    gap_s = sum(process.gap_s for process in timeline.processes)
    found = []
    if gap_s > 0:
        found.append(Missing("hook", f"{gap_s:.1f} s of batches were lost (ring overrun)"))
    if not any(process.stepped for process in timeline.processes):
        why = "no optimizer step was seen: every loader counts as training"
        found.append(Missing("optimizer steps", why))
    if picture.is_unmeasured:
        why = "GPU idle time behind waits was not measured: the range allows for queued GPU work"
        found.append(Missing("gpu", why))
    return found


def _rules(answers: Mapping[str, Answer]) -> list[Missing]:
    return [
        Missing(f"rule {name.split('_')[0].upper()}", answer.reason)
        for name, answer in answers.items()
        if answer.state == "not enough evidence"
    ]


def _hook_state(picture: Picture) -> str:
    if not picture.timeline.processes:
        return "off"
    gaps = any(process.gap_s > 0 for process in picture.timeline.processes)
    return "partial" if gaps else "on"


def _waits_state(picture: Picture) -> str:
    if picture.causes.samples.is_empty():
        return "off"
    nodes = picture.store.nodes.values()
    states = [sources_of(view).get("waits", {}).get("state") for view in nodes]
    return "partial" if "partial" in states or "off" in states else "on"


def _table_state(picture: Picture, table: str) -> str:
    return "off" if picture.tables.frame(table, ("ts_ns",)).is_empty() else "on"


def _measured(picture: Picture) -> bool:
    return bool(picture.causes.rows["gpu_idle_s"].is_not_null().any())
