"""What could be seen of the job, and what not, with the reason: the report never hides a hole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slurm_io.analysis.by_stacks import names_of
from slurm_io.analysis.devices import went_back
from slurm_io.analysis.facts import sources_of, whole
from slurm_io.analysis.inputs import NodeView
from slurm_io.analysis.leftover import how_it_ended, leftover
from slurm_io.analysis.log_check import LogCheck
from slurm_io.analysis.outside import is_attached, outside, ranks_told
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rules.base import Answer
from slurm_io.analysis.slowed import slowed
from slurm_io.analysis.stack_check import check_stacks
from slurm_io.analysis.unseen import unseen

_MAX_MISSING = 40


@dataclass(frozen=True)
class Missing:
    """One thing that was not seen."""

    source: str
    reason: str


def coverage(
    picture: Picture,
    answers: Mapping[str, Answer],
    silence: frozenset[str] = frozenset(),
    log: LogCheck | None = None,
) -> dict[str, Any]:
    """The report's ``coverage``. hook, stacks, gpu, waits are on | partial | off.

    `silence`: codes of rules whose findings the job did not want. `log`: what the job's own log
    says of its steps; without it there is no key ``log``. ``stack_check`` is there where stacks
    were recorded, ``gpu_side`` where a hooked process used CUDA.
    """
    store, timeline = picture.store, picture.timeline
    stacks, side = check_stacks(picture), picture.gpu_side
    missing = _unique(
        [
            *(Missing("job", _damage(item)) for item in getattr(store, "damage", ())),
            *_nodes(picture),
            *_clocks(picture),
            *_sources(picture),
            *(
                Missing(what, why)
                for what, why in (*unseen(store), *went_back(store), *slowed(store))
            ),
            *(Missing(what, why) for what, why in leftover(store)),
            *_hook(picture),
            *(Missing(what, why) for what, why in picture.tables.damage),
            *unanswered(answers),
            *silenced(answers, silence),
        ]
    )
    workers = [view.meta.get("workers_seen") for view in store.nodes.values()]
    counted = [number for number in map(whole, workers) if number is not None]
    return {
        "nodes_expected": list(store.nodes_expected),
        "nodes_seen": sorted(store.nodes),
        "ranks_seen": len(timeline.processes) + ranks_told(store),
        "workers_seen": sum(counted) if counted else None,
        "hook": _hook_state(picture),
        "stacks": _table_state(picture, "stacks"),
        "gpu": _gpu_state(picture),
        "waits": _waits_state(picture),
        "gaps_s": round(sum(process.gap_s for process in timeline.processes), 3),
        "missing": [{"source": one.source, "reason": one.reason} for one in missing],
        **({"gpu_side": side.to_dict()} if side is not None else {}),
        **({"log": log.to_dict()} if log is not None else {}),
        **({"stack_check": stacks.to_dict()} if stacks is not None else {}),
    }


def _unique(found: list[Missing]) -> list[Missing]:
    return list(dict.fromkeys(found))[:_MAX_MISSING]


def _nodes(picture: Picture) -> list[Missing]:
    store = picture.store
    closed = {item.get("node") for item in getattr(store, "damage", ()) if isinstance(item, dict)}
    absent = [
        Missing(f"node {name}", "delivered nothing: it failed, or its sampler never started")
        for name in store.nodes_expected
        if name not in store.nodes and name not in closed
    ]
    return absent + [one for view in store.nodes.values() for one in _node(view)]


def _clocks(picture: Picture) -> list[Missing]:
    limits = picture.thresholds.lockstep
    told = [one for one in picture.clock_offsets if one.is_told(limits)]
    return [Missing(f"clock of {one.node}", one.text(limits)) for one in told]


def _node(view: NodeView) -> list[Missing]:
    found = [Missing(f"node {view.node}", _damage(item)) for item in view.damage]
    meta = view.meta
    if not meta and not _is_told(view):
        why = "meta.json is missing or damaged"
        if view.self_cost is None:
            why = "meta.json and self.json are missing: no room for its sampler to write there?"
        return [*found, Missing(f"node {view.node}", why)]
    if meta.get("clean_end") is False:
        why = meta.get("end_reason") or how_it_ended(view)
        found.append(Missing(f"node {view.node}", f"did not end cleanly: {why}"))
    dropped = (view.self_cost or {}).get("dropped_rows")
    if isinstance(dropped, int) and dropped > 0:
        why = (view.self_cost or {}).get("drop_reason") or "no reason given"
        found.append(Missing(f"node {view.node}", f"{dropped} rows were dropped: {why}"))
    return found


def _is_told(view: NodeView) -> bool:
    """Whether the node's damage says already that its meta.json is gone."""
    named = [item.get("file") for item in view.damage if isinstance(item, dict)]
    return "meta.json" in named or "nodes.jsonl" in named


def _damage(item: object) -> str:
    if isinstance(item, dict) and isinstance(item.get("missing"), str):
        return f"damaged: {item.get('reason')}; {item['missing']}"[:400]
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
    if not timeline.processes and is_attached(picture.store):
        why = (
            "watched from outside: without the hook nobody times a batch; start the job under "
            "`slurm-io run`, or attach with --load-hook (Python 3.14 and newer)"
        )
        return [Missing("hook", why + _stand_in(picture)), *_unmeasured(picture)]
    if not timeline.processes:
        why = (
            "no process reported a batch: not PyTorch, python -I/-S/-E, SLURM_IO_HOOK=0, "
            "PYTHONPATH reset by the job, or the job ended first; wrap other loaders with "
            "slurm_io_hook.watch(loader)"
        )
        return [Missing("hook", why + _stand_in(picture)), *_unmeasured(picture)]
    return _of_hooked(picture) + _beside_hooked(picture)


def _stand_in(picture: Picture) -> str:
    """What stood for the hook, or what could have."""
    seen = picture.by_stacks
    if seen is not None and not seen.refusal:
        return "; stacks stand for it"
    if seen is None and _table_state(picture, "stacks") == "off":
        return "; with profile=full (run --stacks, attach --stacks) stacks can stand for it"
    return ""


def _beside_hooked(picture: Picture) -> list[Missing]:
    """Ranks of a job that has hooked ones: in none of its shares."""
    seen = picture.by_stacks
    waiting = [] if seen is None else seen.looks.ranks
    if seen is not None and waiting:
        wait = seen.found["data_wait"]
        why = (
            f"{names_of(waiting)} had none and {'is' if len(waiting) == 1 else 'are'} in none of "
            f"the shares; stacks show data wait in {wait.value:.1%} of the time "
            f"({wait.low:.1%} to {wait.high:.1%})"
        )
        return [Missing("hook", why)]
    told = ranks_told(picture.store)
    if not told:
        return []
    who = "1 rank" if told == 1 else f"{told} ranks"
    return [Missing("hook", f"{who} timed no batch: without a hook, or never reading")]


def _of_hooked(picture: Picture) -> list[Missing]:
    timeline = picture.timeline
    gap_s = sum(process.gap_s for process in timeline.processes)
    found = []
    if gap_s > 0:
        found.append(Missing("hook", f"{gap_s:.1f} s of batches were lost (ring overrun)"))
    if not any(process.stepped for process in timeline.processes):
        why = "no optimizer step was seen: every loader counts as training"
        found.append(Missing("optimizer steps", why))
    return found + _unmeasured(picture)


def _unmeasured(picture: Picture) -> list[Missing]:
    if not picture.is_unmeasured:
        return []
    side = picture.gpu_side
    told = "idle time behind waits was not measured" if side is None else side.text
    return [Missing("gpu", f"GPU {told}: the range allows for queued GPU work")]


def unanswered(answers: Mapping[str, Answer]) -> list[Missing]:
    """Rules that had not enough to go by."""
    return [
        Missing(f"rule {name.split('_')[0].upper()}", answer.reason)
        for name, answer in answers.items()
        if answer.state == "not enough evidence"
    ]


def silenced(answers: Mapping[str, Answer], silence: frozenset[str]) -> list[Missing]:
    """Rules that found something the job did not want to hear of."""
    found = {finding.rule for answer in answers.values() for finding in answer.findings}
    return [
        Missing(f"rule {code}", "it found something; the job asked for silence about it (silence=)")
        for code in sorted(found & silence)
    ]


def _hook_state(picture: Picture) -> str:
    if not picture.timeline.processes:
        return "off"
    gaps = any(process.gap_s > 0 for process in picture.timeline.processes)
    return "partial" if gaps or picture.by_stacks is not None else "on"


def _waits_state(picture: Picture) -> str:
    seen = outside(picture)
    if picture.causes.samples.is_empty() and not (seen and seen["seen"]):
        return "off"
    nodes = picture.store.nodes.values()
    states = [sources_of(view).get("waits", {}).get("state") for view in nodes]
    return "partial" if "partial" in states or "off" in states else "on"


def _gpu_state(picture: Picture) -> str:
    """By the hook's clock of GPU idle time or by the table; partial where a node has no GPU rows or
    lost GPUs on the way."""
    if picture.gpu_side is not None and picture.gpu_side.is_measured:
        return "on"
    nodes = picture.store.nodes.values()
    states = [sources_of(view).get("gpu", {}).get("state") for view in nodes]
    found = _table_state(picture, "gpu")
    is_partial = found == "on" and ("partial" in states or "off" in states)
    return "partial" if is_partial else found


def _table_state(picture: Picture, table: str) -> str:
    return "off" if picture.tables.frame(table, ("ts_ns",)).is_empty() else "on"
