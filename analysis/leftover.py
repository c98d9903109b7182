"""What the report says of rings that were read after their sampler had been killed."""

from __future__ import annotations

from typing import Any

from slurm_io.analysis.facts import mapping, whole
from slurm_io.analysis.inputs import NodeView, StoreView

Line = tuple[str, str]
"""(source, reason), as the report's ``missing`` has them."""

KILLED = "the sampler was killed, the last 2 s may be missing"
KILLED_BUT_STEPS = (
    "the sampler was killed; steps after that are from the hook's rings, nothing else is known of "
    "the time"
)


def how_it_ended(view: NodeView) -> str:
    """Of a sampler that gave no reason for its end."""
    told = mapping(view.meta.get("leftover"))
    return KILLED_BUT_STEPS if whole(told.get("until_ts_ns")) is not None else KILLED


def leftover(store: StoreView) -> list[Line]:
    """One line for each kind of hole in the steps, and node."""
    return [line for view in store.nodes.values() for line in _of_node(view)]


def _of_node(view: NodeView) -> list[Line]:
    told = mapping(view.meta.get("leftover"))
    found = []
    if isinstance(told.get("unread"), str):
        found.append(f"not all of the hook's rings was read: {told['unread'][:200]}")
    dropped = whole(told.get("dropped_rows")) or 0
    if dropped > 0:
        reason = str(told.get("drop_reason"))[:40]
        found.append(f"{dropped} rows from the hook's rings were dropped: {reason}")
    lost = told.get("lost")
    entries = [one for one in lost if isinstance(one, dict)] if isinstance(lost, list) else []
    if entries:
        found.append(_of_lost(entries))
    return [("hook", f"{view.node}: {text}") for text in found]


def _of_lost(entries: list[dict[str, Any]]) -> str:
    """A ring holds its last records only."""
    counted = [whole(one.get("batches")) for one in entries]
    known = [number for number in counted if number is not None]
    number = sum(known)
    what = "1 batch" if number == 1 else f"{number} batches"
    if len(known) < len(entries):
        what = f"{what} and more" if known else "steps"
    longest_s = max((_seconds(one) for one in entries), default=0.0)
    time = f" (up to {longest_s:.1f} s)" if longest_s > 0 else ""
    return f"{what} of {_who(entries)}{time} were overwritten in the ring while no sampler read it"


def _seconds(one: dict[str, Any]) -> float:
    """From the last step known to the first one read; 0 where none was known before."""
    from_ns, to_ns = whole(one.get("from_ts_ns")), whole(one.get("to_ts_ns"))
    return max(0, to_ns - from_ns) / 1e9 if from_ns is not None and to_ns is not None else 0.0


def _who(entries: list[dict[str, Any]]) -> str:
    if len(entries) > 1:
        return f"{len(entries)} ranks"
    rank = whole(entries[0].get("rank"))
    return f"process {whole(entries[0].get('pid'))}" if rank is None else f"rank {rank}"
