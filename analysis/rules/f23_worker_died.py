"""F23: a loader worker died, or shared memory ran out.

What it flags
-------------
A DataLoader reported that one of its workers was killed or vanished, or the file system that
workers hand batches over with (``/dev/shm``) was all but full.

Why it matters
--------------
The job ends, often hours in, with an error that names neither memory nor the limit it hit. Shared
memory that is nearly full is the same end a little later.

Evidence
--------
The error that torch raised on the training thread (hook: how the worker ended, no other text), and
what ran out at that time: space on ``/dev/shm``, or anonymous and shared memory of the job's
control group against its limit. Page cache does not count: the kernel takes it back.

What to do
----------
Bus error: a larger ``/dev/shm`` (containers begin with 64 MB), or fewer batches in flight. Killed:
more memory, or fewer workers. Segmentation fault: the dataset's own code.

Known false alarms
------------------
A worker that a user's own code ends looks the same. A job that is cancelled kills its workers too;
the loader then seldom gets to say so. ``/dev/shm`` belongs to the node: another job's files in it
count as well. Its fill is known only where the job was seen to wait for it; without that the
finding rests on the loader's word alone.

Thresholds
----------
``thresholds.shm_share`` (95 % of /dev/shm in use); 98 % of the memory limit, which no key
changes. One lost worker is enough.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from slurm_io.analysis.allotted import memory_limit_bytes, workers_now
from slurm_io.analysis.facts import mapping, whole
from slurm_io.analysis.host_rows import sparse, thinning, training_spans
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rule_limits import Workers
from slurm_io.analysis.rules.base import RULES, Answer, Evidence, Finding, Needs, Place, iso, sure

_SHM = "/dev/shm"
_SAME_NS = 10_000_000_000
_EVENTS = ("ts_ns", "pid", "rank", "kind", "failed", "detail")
_PERIOD_S = 30  # between two rows of a mount
_MOST_EVENTS = 100
_MOST_NAMED = 8
_GIB = 2**30
_USUAL_WORKERS = 8  # where no loader told
_SLURM_PART = 0.95  # of a node's memory: slurmd and the system keep some

Kind = Literal["shm", "memory", "code", "unknown"]
_TITLES: dict[Kind, str] = {
    "shm": "a loader worker died of a bus error: shared memory ran out",
    "memory": "a loader worker was killed, as the kernel does when memory runs out",
    "code": "a loader worker crashed",
    "unknown": "a loader worker vanished",
}
_REMEDIES: dict[Kind, str] = {
    "shm": "a larger /dev/shm, or fewer and smaller batches in flight",
    "memory": "more memory for the job, or fewer workers and batches in flight",
    "code": "run the dataset in the training process (num_workers=0) to see the crash itself",
    "unknown": "look at the kernel log of the node and run the dataset with num_workers=0",
}
_COMMANDS: dict[Kind, tuple[str, ...]] = {
    "shm": ("df -h /dev/shm", "docker run --shm-size=16g ...  # or --ipc=host"),
    "memory": ('sacct -j "$SLURM_JOB_ID" -o JobID,State,MaxRSS,ReqMem',),
    "code": ("DataLoader(..., num_workers=0)", "PYTHONFAULTHANDLER=1 python train.py"),
    "unknown": ("dmesg -T | grep -iE 'oom|killed process'", "DataLoader(..., num_workers=0)"),
}


@dataclass(frozen=True)
class _Lost:
    """One worker, as its loader reported it."""

    node: str
    pid: int | None
    rank: int | None
    ts_ns: int | None
    how: str

    @property
    def kind(self) -> Kind:
        words = self.how.lower()
        if "bus error" in words:
            return "shm"
        if "killed" in words.rpartition(":")[2]:
            return "memory"
        if "segmentation" in words or "abort" in words or "illegal" in words:
            return "code"
        return "unknown"


@RULES.register("f23_worker_died")
class WorkerDied:
    """A loader worker died, or shared memory is all but full."""

    code = "F23"
    title = "loader worker died, or shared memory exhausted"
    needs: Needs = "nothing"

    def judge(self, picture: Picture) -> Answer:
        """Lost workers first, then full shared memory."""
        limits = picture.thresholds.rules.workers
        lost = _lost(picture)
        full = _shm(picture, limits)
        tight = _memory(picture, limits) if lost else None
        kinds = list(dict.fromkeys(one.kind for one in lost))
        found = [
            _dead(picture, kind, [one for one in lost if one.kind == kind], full, tight)
            for kind in kinds
        ]
        if full is not None and "shm" not in kinds and picture.store.nodes:
            found.append(_full(picture, full))
        if found:
            return Answer("fired", findings=tuple(found))
        if not picture.timeline.processes:
            return Answer("not enough evidence", "no training batches were recorded (hook)")
        return Answer("quiet", "no loader lost a worker")


def _lost(picture: Picture) -> list[_Lost]:
    events = picture.tables.frame("events", _EVENTS)
    failed = events.filter((pl.col("kind") == "error") & pl.col("detail").is_not_null())
    failed = failed.with_columns(pl.col("node").cast(pl.String)).sort("ts_ns").head(_MOST_EVENTS)
    found: list[_Lost] = []
    for row in failed.iter_rows(named=True):
        how = _how(row["detail"])
        if how is not None and not any(_is_same(row, one) for one in found):
            found.append(_Lost(row["node"], row["pid"], row["rank"], row["ts_ns"], how))
    return found


def _is_same(row: dict[str, Any], one: _Lost) -> bool:
    """One loss is told by torch's signal handler and again by the loader that was asked next."""
    soon = abs((row["ts_ns"] or 0) - (one.ts_ns or 0)) < _SAME_NS
    return soon and (row["node"], row["pid"]) == (one.node, one.pid)


def _how(detail: str) -> str | None:
    try:
        told = mapping(json.loads(detail)).get("worker")
    except ValueError:
        return None
    return told if isinstance(told, str) and told else None


def _shm(picture: Picture, limits: Workers) -> Evidence | None:
    """The fullest moment of /dev/shm, when that is full enough."""
    every = sparse(training_spans(picture.timeline), _PERIOD_S)
    columns = ("ts_ns", "mono_ns", "mount", "size_bytes", "avail_bytes")
    rows = picture.tables.frame("capacity", columns, every)
    mine = rows.filter((pl.col("mount") == _SHM) & (pl.col("size_bytes") > 0))
    mine = mine.drop_nulls("avail_bytes").with_columns(
        (1 - pl.col("avail_bytes") / pl.col("size_bytes")).alias("used")
    )
    worst = _fullest(mine, limits.shm_share)
    if worst is None:
        return None
    text = (
        f"{_SHM} on {worst['node']} was {worst['used']:.0%} full of "
        f"{worst['size_bytes'] / _GIB:.1f} GiB"
    )
    when = iso(worst["ts_ns"])
    return Evidence(text, "shm_share", worst["used"], limits.shm_share, when, when)


def _memory(picture: Picture, limits: Workers) -> Evidence | None:
    """The moment at which memory that cannot be given back came nearest to the limit."""
    columns = ("ts_ns", "mono_ns", "mem_limit_bytes", "mem_anon_bytes", "mem_shmem_bytes")
    every = thinning(training_spans(picture.timeline))
    rows = picture.tables.frame("cgroup", columns, every).filter(pl.col("mem_limit_bytes") > 0)
    held = pl.col("mem_anon_bytes") + pl.col("mem_shmem_bytes").fill_null(0)
    shares = rows.with_columns((held / pl.col("mem_limit_bytes")).alias("used")).drop_nulls("used")
    worst = _fullest(shares, limits.memory_share)
    if worst is None:
        return None
    text = (
        f"the job's memory on {worst['node']} was {worst['used']:.0%} of its limit of "
        f"{worst['mem_limit_bytes'] / _GIB:.1f} GiB (page cache not counted)"
    )
    when = iso(worst["ts_ns"])
    return Evidence(text, "memory_share", worst["used"], limits.memory_share, when, when)


def _fullest(rows: pl.DataFrame, limit: float) -> dict[str, Any] | None:
    """The row whose ``used`` is largest, when that reaches the limit."""
    worst = next(rows.sort("used").tail(1).iter_rows(named=True), None)
    return worst if worst is not None and worst["used"] >= limit else None


def _dead(
    picture: Picture,
    kind: Kind,
    lost: list[_Lost],
    full: Evidence | None,
    tight: Evidence | None,
) -> Finding:
    second = {"shm": full, "memory": tight, "code": None, "unknown": tight or full}[kind]
    how = f"{len(lost)} worker{'s' * (len(lost) != 1)} lost: {lost[0].how}"
    evidence = [
        Evidence(how, "workers_lost", len(lost), 1, iso(lost[0].ts_ns), iso(lost[-1].ts_ns))
    ]
    if second is not None:
        evidence.append(second)
    evidence += _zombies(picture)
    return Finding(
        rule="F23",
        severity="bad",
        confidence=sure(1 + (second is not None)),
        title=_TITLES[kind],
        lost_gpu_s=None,
        where=Place(
            nodes=tuple(sorted({one.node for one in lost})),
            ranks=tuple(sorted({one.rank for one in lost if one.rank is not None}))[:_MOST_NAMED],
            mounts=(_SHM,) if kind == "shm" else (),
        ),
        evidence=tuple(evidence),
        remedy=_REMEDIES[kind],
        commands=_commands(picture, kind),
    )


def _commands(picture: Picture, kind: Kind) -> tuple[str, ...]:
    """With half of the job's workers, and half as much memory again where the node has it."""
    if kind not in ("shm", "memory"):
        return _COMMANDS[kind]
    workers = max(1, (workers_now(picture) or _USUAL_WORKERS) // 2)
    fewer = f"DataLoader(..., num_workers={workers}, prefetch_factor=2)"
    more = (_more_memory(picture),) if kind == "memory" else ()
    return (*_COMMANDS[kind], *more, fewer)


def _more_memory(picture: Picture) -> str:
    limit, node = memory_limit_bytes(picture)
    wanted = -(-3 * (limit or 0) // (2 * _GIB))
    if limit is None or node is None or wanted * _GIB > _SLURM_PART * node:
        return "#SBATCH --mem=0  # all of the node's memory"
    return f"#SBATCH --mem={wanted}G  # {limit / _GIB:.0f}G now"


def _zombies(picture: Picture) -> list[Evidence]:
    views = picture.store.nodes.values()
    counts = [whole(mapping(view.meta.get("processes")).get("zombies")) or 0 for view in views]
    total = sum(count for count in counts if count > 0)
    if not total:
        return []
    return [Evidence(f"{total} ended processes were never collected (zombies)", "zombies", total)]


def _full(picture: Picture, full: Evidence) -> Finding:
    return Finding(
        rule="F23",
        severity="warn",
        confidence="likely",
        title="shared memory is all but full",
        lost_gpu_s=None,
        where=Place(mounts=(_SHM,)),
        evidence=(full,),
        remedy=_REMEDIES["shm"],
        commands=_commands(picture, "shm"),
    )
