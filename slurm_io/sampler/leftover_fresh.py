"""Which rows of the rings are new to a spool, and which steps neither of the two has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from slurm_io.collectors.base import Row
from slurm_io.sampler.leftover_facts import Lost
from slurm_io.sampler.leftover_rings import RingContent
from slurm_io.store.known_rows import Key, last_before, leave_out_known
from slurm_io.store.schema import TABLES

Fresh = dict[Key, Row]

# Two clocks of a nanosecond tell a row. Not the pid: of a process in a container the sampler may
# not have known it when it began.
KEYS = {
    "steps": ("rank", "loader", "epoch", "batch", "mono_ns", "data_wait_ns"),
    "gpu_waits": ("rank", "loader", "epoch", "batch", "mono_ns", "gpu_idle_ns"),
    "events": ("rank", "kind", "mono_ns", "end_mono_ns", "step", "bytes"),
}
_STEPS = TABLES["steps"]
_ASKED_OF_THE_LAST = ("loader", "epoch", "batch", "data_wait_ns")


def fresh_rows(spool: Path, contents: Sequence[RingContent], offset_ns: int) -> dict[str, Fresh]:
    """By table what `spool` has not. Raises StoreError when that cannot be told."""
    found: dict[str, Fresh] = {}
    for name, key in KEYS.items():
        key_of = _key_of(name)
        fresh = {key_of(row): row for content in contents for row in content.rows[name]}
        leave_out_known(spool, TABLES[name], key, fresh, offset_ns)
        found[name] = fresh
    return found


def lost_steps(
    spool: Path, contents: Iterable[RingContent], fresh: Fresh, offset_ns: int
) -> Iterator[Lost]:
    """Of rings that were written round and whose oldest step nobody had read (it is `fresh`)."""
    key_of, start_of = _key_of("steps"), itemgetter(_STEPS.column_names().index("mono_ns"))
    oldest: dict[int, tuple[RingContent, dict[str, Any]]] = {}
    for content in contents:
        first = min(content.rows["steps"], key=start_of, default=None)
        if content.overwritten and first is not None and key_of(first) in fresh:
            named = dict(zip(_STEPS.column_names(), first, strict=True))
            oldest[content.pid] = content, named
    if not oldest:
        return
    starts = {pid: row["mono_ns"] for pid, (_content, row) in oldest.items()}
    known = last_before(spool, _STEPS, _ASKED_OF_THE_LAST, starts)
    for pid, (content, row) in oldest.items():
        lost = _between(content, known.get(pid), row, offset_ns)
        if lost.batches != 0:
            yield lost


def _between(
    content: RingContent, known: Mapping[str, Any] | None, row: Mapping[str, Any], offset_ns: int
) -> Lost:
    """What lies between a process's last known step and the oldest one in its ring."""
    batches = from_ns = None
    if known is not None:
        from_ns = known["mono_ns"] + known["data_wait_ns"] + offset_ns
        if (known["loader"], known["epoch"]) == (row["loader"], row["epoch"]):
            batches = max(0, row["batch"] - known["batch"] - 1)
    to_ns = row["mono_ns"] + offset_ns
    return Lost(content.pid, content.starttime, row["rank"], from_ns, to_ns, batches)


def _key_of(name: str) -> itemgetter[Any]:
    columns = TABLES[name].column_names()
    return itemgetter(*(columns.index(column) for column in KEYS[name]))
