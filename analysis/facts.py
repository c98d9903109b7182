"""Reading JSON that a job's node wrote: what is not of the expected kind is as if not there."""

from __future__ import annotations

from typing import Any

from slurm_io.analysis.inputs import NodeView

_MAX_NS = 2**62


def mapping(value: object) -> dict[str, Any]:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def whole(value: object) -> int | None:
    """`value` if it is a whole number that a clock or counter can hold; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -_MAX_NS < value < _MAX_NS else None


def ranks_of(view: NodeView) -> list[dict[str, Any]]:
    """The ranks a node's meta.json lists."""
    ranks = view.meta.get("ranks")
    return [rank for rank in ranks if isinstance(rank, dict)] if isinstance(ranks, list) else []


def sources_of(view: NodeView) -> dict[str, dict[str, Any]]:
    """The state of each collector, by name, from a node's meta.json."""
    sources = mapping(view.meta.get("sources"))
    return {str(name): state for name, state in sources.items() if isinstance(state, dict)}
