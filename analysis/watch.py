"""Over which stretch of each node's clock a rule may look at the sampler's rows.

While the job trained, as the hook timed it, or as stacks show it. Where neither saw a step: while
the job was watched at all, without its first tenth (at most ten minutes: imports, loading, the
first files) and its last twentieth (at most five). Nobody knows what of that was training, so a
rule that looks at it can say what the machine did, never what training lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import polars as pl

from slurm_io.analysis.by_stacks import ByStacks
from slurm_io.analysis.facts import mapping, whole
from slurm_io.analysis.host_rows import NS, training_spans, warm_up_over
from slurm_io.analysis.inputs import NodeView, StoreView
from slurm_io.analysis.timeline import Timeline

LEAST_WATCHED_S = 60.0  # of a job nobody saw a step of: less is its start
_HEAD_SHARE, _HEAD_NS = 0.10, 600 * NS
_TAIL_SHARE, _TAIL_NS = 0.05, 300 * NS

By = Literal["hook", "stacks", "job"]


@dataclass(frozen=True)
class Watch:
    """`spans`: (node, opens, closes), monotonic ns of the node. `by`: who saw that it trained;
    "job": nobody, the job was there."""

    by: By
    spans: pl.DataFrame

    @property
    def seconds(self) -> float:
        """Of the node that was watched longest."""
        length = self.spans["closes"] - self.spans["opens"]
        return max((int(one) for one in length), default=0) / NS

    @property
    def is_training(self) -> bool:
        """Whether the job is known to have trained then."""
        return self.by != "job"


def find_watch(store: StoreView, timeline: Timeline, by_stacks: ByStacks | None) -> Watch:
    """The best that is known."""
    if timeline.processes:
        return Watch("hook", training_spans(timeline))
    if by_stacks is not None and not by_stacks.refusal:
        return Watch("stacks", _by_stacks(by_stacks))
    return Watch("job", _spans([_of_job(name, view) for name, view in store.nodes.items()]))


def _by_stacks(seen: ByStacks) -> pl.DataFrame:
    found: dict[str, tuple[int, int]] = {}
    for rank in seen.looks.ranks:
        opens, closes = found.get(rank.node, (rank.opens, rank.closes))
        found[rank.node] = (min(opens, rank.opens), max(closes, rank.closes))
    return _spans([(node, warm_up_over(*span), span[1]) for node, span in found.items()])


def _of_job(name: str, view: NodeView) -> tuple[str, int, int] | None:
    """By the sampler's own start and end."""
    offset = whole(mapping(view.meta.get("clock")).get("realtime_minus_monotonic_ns"))
    start, end = whole(view.meta.get("start_ts_ns")), whole(view.meta.get("end_ts_ns"))
    if offset is None or start is None or end is None or end <= start:
        return None
    head = min(_HEAD_NS, int(_HEAD_SHARE * (end - start)))
    tail = min(_TAIL_NS, int(_TAIL_SHARE * (end - start)))
    return name, start - offset + head, end - offset - tail


def _spans(found: list[tuple[str, int, int] | None]) -> pl.DataFrame:
    return pl.DataFrame(
        sorted(one for one in found if one is not None),
        schema={"node": pl.String, "opens": pl.Int64, "closes": pl.Int64},
        orient="row",
    )
