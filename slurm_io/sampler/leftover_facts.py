"""What meta.json says once the rings of a killed sampler have been read. Pure: no file is touched.

All of it may be worked out a second time, by a reader that comes after one that was cut short, and
must then say the same. Only what was lost cannot: the first one's rows close the hole. So what the
first one said of that stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from slurm_io.model import SamplerSpec
from slurm_io.sampler.leftover_rings import RingContent
from slurm_io.store.schema import SCHEMA_VERSION

LEFTOVER = "leftover"
_MOST_REMEMBERED = 4096
_CLOCK = "realtime_minus_monotonic_ns"
_LARGEST_NS = 2**62
_NEVER_BEGAN = "the sampler wrote nothing; the steps are from the hook's rings"


@dataclass(frozen=True)
class Lost:
    """Steps of one process that were overwritten before anybody read them: after the last one known
    (None: none is) and before the oldest one in its ring. `batches` None = not told."""

    pid: int
    starttime: int
    rank: int | None
    from_ts_ns: int | None
    to_ts_ns: int
    batches: int | None


def clock_offset_ns(meta: Mapping[str, Any], of_ring_ns: int) -> int:
    """UTC − CLOCK_MONOTONIC: the sampler's, so that no series is torn, else that of a ring."""
    clock = meta.get("clock")
    told = clock.get(_CLOCK) if isinstance(clock, dict) else None
    if isinstance(told, int) and not isinstance(told, bool) and abs(told) < _LARGEST_NS:
        return told
    return max(-_LARGEST_NS, min(of_ring_ns, _LARGEST_NS))


def with_base(meta: Mapping[str, Any], spec: SamplerSpec, offset_ns: int) -> dict[str, Any]:
    """`meta` with what every meta.json has, where the sampler did not come to write one."""
    return {
        "schema": SCHEMA_VERSION,
        "job": spec.job.to_dict(),
        "node": spec.node,
        "mode": spec.mode,
        "start_ts_ns": None,
        "end_ts_ns": None,
        "clean_end": False,
        "end_reason": _NEVER_BEGAN,
        "clock": {_CLOCK: offset_ns},
        **meta,
    }


def with_contents(
    meta: Mapping[str, Any], contents: Sequence[RingContent], lost: Iterable[Lost]
) -> dict[str, Any]:
    """`meta` with some more rings in it."""
    before = _mapping(meta.get(LEFTOVER))
    ends = [before.get("until_ts_ns"), *(one.rank["last_ts_ns"] for one in contents if one.rank)]
    leftover = {
        **before,
        "until_ts_ns": max((end for end in ends if isinstance(end, int)), default=None),
        "lost": _lost(before.get("lost"), lost),
    }
    return {
        **meta,
        "ranks": _ranks(meta.get("ranks"), contents),
        "loaders": _loaders(meta.get("loaders"), contents),
        LEFTOVER: leftover,
    }


def pids_outside(meta: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """(starttime, rank) -> pid as the tables have it, of ranks whose rings may bear another
    (containers); none where two processes are alike."""
    found: dict[tuple[str, str], set[int]] = defaultdict(set)
    for one in _objects(meta.get("ranks")):
        if isinstance(one.get("pid"), int):
            found[str(one.get("starttime")), str(one.get("rank"))].add(one["pid"])
    return {process: pids.pop() for process, pids in found.items() if len(pids) == 1}


def _ranks(told: object, contents: Sequence[RingContent]) -> list[dict[str, Any]]:
    fresh: dict[tuple[object, object], dict[str, Any]] = {
        (one.pid, one.starttime): one.rank for one in contents if one.rank is not None
    }
    numbers = {facts["rank"] for facts in fresh.values()}
    merged: list[dict[str, Any]] = []
    for facts in _objects(told):
        younger = fresh.pop((facts.get("pid"), facts.get("starttime")), None)
        if younger is not None:
            first_ns = facts.get("first_ts_ns") or younger["first_ts_ns"]
            merged.append({**younger, "first_ts_ns": first_ns})
        elif "told_by" not in facts or facts.get("rank") not in numbers:
            merged.append(facts)
    return [*merged, *fresh.values()][:_MOST_REMEMBERED]


def _loaders(told: object, contents: Sequence[RingContent]) -> list[dict[str, Any]]:
    found = [*_objects(told), *(loader for one in contents for loader in one.loaders)]
    by_id = {(str(one.get("pid")), str(one.get("id"))): one for one in reversed(found)}
    return list(reversed(by_id.values()))[:_MOST_REMEMBERED]


def _lost(told: object, now: Iterable[Lost]) -> list[dict[str, Any]]:
    found = [*_objects(told), *map(asdict, now)]
    first = {(one.get("pid"), one.get("starttime")): one for one in reversed(found)}
    return list(reversed(first.values()))[:_MOST_REMEMBERED]


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
