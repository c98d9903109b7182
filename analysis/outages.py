"""Times in which a file system's client had lost its servers, and the stalls that lie in them.

From meta.json: Lustre's connections out of FULL and IDLE (disconnected, evicted, replaying), with
times from the kernel's own history; seconds in which Weka's front end was missing, and targets of
BeeGFS that were not well, of which only the first and the last sight are known. A job that waits
for storage while its client is cut off has its cause by the client's own word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from slurm_io.analysis.causes import Causes
from slurm_io.analysis.facts import mapping, sources_of, whole
from slurm_io.analysis.inputs import NodeView, StoreView
from slurm_io.analysis.read_sources import ReadMounts
from slurm_io.analysis.thresholds import Witness as Limits
from slurm_io.analysis.witness import Witness

_NAME, _METRIC = "client's connection", "outage_share"
_NS = 1_000_000_000
_MOST_SECONDS = 86_400 * 60
_DENSE = 0.5  # of the time between first and last sight that must have been looks that saw it


@dataclass(frozen=True)
class Outage:
    """One, in UTC ns of its node. `until_ns` None: not over when the recording ended."""

    node: str
    fstype: str
    what: str
    state: str
    from_ns: int
    until_ns: int | None

    @property
    def text(self) -> str:
        """For people: ``lustrefs-OST0003 EVICTED``."""
        return f"{self.what} {self.state}"


def find_outages(store: StoreView) -> tuple[Outage, ...]:
    """Of all nodes, in the order of their beginning."""
    found = [
        one
        for name, view in store.nodes.items()
        for kind in (_lustre, _weka, _beegfs)
        for one in kind(name, view)
    ]
    return tuple(sorted(found, key=lambda one: (one.from_ns, one.node, one.what)))


def hear_outages(
    store: StoreView,
    causes: Causes,
    moods: pl.DataFrame,
    where: Mapping[str, ReadMounts],
    limits: Limits,
) -> Witness:
    """Agrees when stalled seconds lie in outages of a file system that is waited for, and seconds
    in outages are stalled ones."""
    outages = [one for one in find_outages(store) if _is_waited_for(one, where)]
    if not outages:
        return Witness(_NAME, None, "no client was seen to lose its servers", _METRIC)
    inside = moods.join(_seconds_of(outages, store, causes), on=["node", "sec"], how="semi")
    stalled = moods.filter(pl.col("mood") == "stalled").height
    hit = inside.filter(pl.col("mood") == "stalled").height
    if not inside.height:
        return Witness(_NAME, None, "outages lay outside the training's data waits", _METRIC)
    share = hit / stalled if stalled else 0.0
    agrees = (
        hit >= limits.outage_seconds and share >= limits.outage_share and hit >= 0.5 * inside.height
    )
    names = ", ".join(dict.fromkeys(one.text for one in outages[:3]))
    text = f"{names}: {hit} of {stalled} stalled seconds lay in the outage"
    return Witness(_NAME, agrees, text, _METRIC, share, limits.outage_share)


def _is_waited_for(one: Outage, where: Mapping[str, ReadMounts]) -> bool:
    mounts = where.get(one.node)
    if mounts is None or not mounts.seen:
        return True
    return any(fstype.removesuffix("_nodev") == one.fstype for _, fstype in mounts.mounts)


def _seconds_of(outages: list[Outage], store: StoreView, causes: Causes) -> pl.DataFrame:
    """(node, sec) that lie in an outage."""
    borders = {str(node): border for node, border in causes.phases.select("node", "border").rows()}
    found = []
    for one in outages:
        view = store.nodes[one.node]
        offset = whole(mapping(view.meta.get("clock")).get("realtime_minus_monotonic_ns"))
        end_ns = one.until_ns or whole(view.meta.get("end_ts_ns"))
        if offset is None or end_ns is None or one.node not in borders:
            continue
        base = offset + borders[one.node]
        first, last = (one.from_ns - base) // _NS, (end_ns - base) // _NS
        if first <= last <= first + _MOST_SECONDS:
            found.append((one.node, first, last))
    spans = pl.DataFrame(
        found, schema={"node": pl.String, "first": pl.Int64, "last": pl.Int64}, orient="row"
    )
    seconds = pl.int_ranges(pl.col("first"), pl.col("last") + 1, dtype=pl.Int64)
    exploded = spans.select("node", seconds.alias("sec")).explode("sec").unique()
    return exploded.with_columns(pl.col("node").cast(causes.phases.schema["node"]))


def _lustre(name: str, view: NodeView) -> Iterator[Outage]:
    told = mapping(sources_of(view).get("lustre")).get("outages")
    for each in _objects(told):
        start, end = _seconds(each.get("from_ts_s")), _seconds(each.get("until_ts_s"))
        if start is not None:
            what, state = str(each.get("target"))[:100], str(each.get("state"))[:40]
            yield Outage(name, "lustre", what, state, start, end)


def _weka(name: str, view: NodeView) -> Iterator[Outage]:
    for each in _objects(mapping(sources_of(view).get("weka")).get("containers")):
        told = each.get("front_end_missing_ts_ns")
        seen = [whole(one) for one in told] if isinstance(told, list) else []
        ticks = whole(each.get("front_end_missing_ticks")) or 0
        known = [one for one in seen if one is not None]
        if len(known) == 2 and _is_dense(known[0], known[1], ticks, 1):
            what = f"Weka container {each.get('container') or ''}".strip()
            yield Outage(name, "wekafs", what[:100], "without front end", known[0], known[1])


def _beegfs(name: str, view: NodeView) -> Iterator[Outage]:
    for client in _objects(mapping(sources_of(view).get("beegfs")).get("clients")):
        for what, each in mapping(client.get("not_well")).items():
            first = whole(mapping(each).get("first_ts_ns"))
            last = whole(mapping(each).get("last_ts_ns"))
            ticks = whole(mapping(each).get("ticks")) or 0
            target, _, state = what.rpartition(": ")
            # Others lack a copy or are being synchronised, and answer.
            is_offline = "offline" in state.lower()
            if first is None or last is None or not is_offline:
                continue
            if _is_dense(first, last, ticks, 10):
                yield Outage(name, "beegfs", target[:100], state[:40], first, last)


def _is_dense(first_ns: int, last_ns: int, looks: int, period_s: int) -> bool:
    """Whether it was so most of the time between the first and the last look that saw it."""
    return 0 <= last_ns - first_ns <= looks * period_s * _NS / _DENSE


def _objects(told: object) -> list[dict[str, Any]]:
    return [each for each in told if isinstance(each, dict)] if isinstance(told, list) else []


def _seconds(value: object) -> int | None:
    """UTC seconds, whole or not, as ns."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return round(value * _NS) if 0 < value < 1e10 else None
