"""A job store in memory with a known answer: ranks that compute, wait, save, as they are told.

Time is simulated. :class:`Job` lays out what each rank does, :meth:`Job.store` turns that into the
tables a real sampler and hook would have written, with wait samples at `hz` from the phases.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from slurm_io.model import JobIdentity
from slurm_io.store.schema import TABLES, WAIT_CLASSES

EPOCH_NS = 1_760_000_000 * 10**9
NS = 10**9
MOUNT = "/scratch"
_ARROW = {
    "int64": pa.int64(),
    "int32": pa.int32(),
    "float64": pa.float64(),
    "float32": pa.float32(),
    "string": pa.string(),
    "bool": pa.bool_(),
}


def arrow_table(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as a table of the schema; columns not given are null."""
    fields = [
        pa.field(column.name, _ARROW[column.type], column.nullable)
        for column in TABLES[name].columns
    ]
    full = [{f.name: row.get(f.name) for f in fields} for row in rows]
    return pa.Table.from_pylist(full, schema=pa.schema(fields))


@dataclass
class StandInNode:
    """As :class:`slurm_io.store.reader.NodeStore`."""

    node: str
    meta: dict[str, Any]
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    self_cost: dict[str, Any] | None = None
    checks: dict[str, Any] | None = None
    damage: list[dict[str, Any]] = field(default_factory=list)

    def table(self, name: str, columns: Sequence[str] | None = None, every: int = 1) -> pa.Table:
        """The rows so far."""
        return arrow_table(name, self.tables.get(name, []))


@dataclass
class StandInStore:
    """As :class:`slurm_io.store.reader.JobStore`."""

    job: JobIdentity | None
    nodes: dict[str, StandInNode]
    nodes_expected: tuple[str, ...]
    extra: dict[str, Any] = field(default_factory=dict)
    checkpoints: dict[str, Any] | None = None
    damage: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Rank:
    """One simulated training process; `now` is its clock in seconds."""

    number: int | None
    node: str
    pid: int
    workers: int = 2
    cuda: bool = False
    hz: float = 10.0
    now: float = 100.0
    steps: int = 0
    last_step: float | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    gpu_waits: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    # (from, to, phase, loader, class of the loader's processes)
    phases: list[tuple[float, float, str, int | None, str]] = field(default_factory=list)

    def batch(
        self,
        wait_s: float,
        cause: str = "storage",
        *,
        loader: int = 0,
        epoch: int = 0,
        index: int,
        gpu_idle_s: float | None = None,
        recorded: bool = True,
    ) -> None:
        """Wait for a batch; `cause` is the class its loader's processes are seen in.

        `gpu_idle_s` as the hook has it: 0 is known with the batch, more comes in a row of its own.
        """
        if recorded and gpu_idle_s:
            self._gpu_wait(gpu_idle_s, loader, epoch, index)
        if recorded:
            self.rows.append(
                {
                    "ts_ns": EPOCH_NS + round(self.now * NS),
                    "mono_ns": round(self.now * NS),
                    "pid": self.pid,
                    "rank": self.number,
                    "loader": loader,
                    "epoch": epoch,
                    "batch": index,
                    "step": self.steps,
                    "last_step_mono_ns": None
                    if self.last_step is None
                    else round(self.last_step * NS),
                    "data_wait_ns": round(wait_s * NS),
                    "gpu_idle_ns": 0 if gpu_idle_s == 0 else None,
                    "first": index == 0,
                    "workers": self.workers > 0,
                    "cuda": self.cuda,
                }
            )
        self._spend(wait_s, "data_wait", loader, cause)

    def _gpu_wait(self, idle_s: float, loader: int, epoch: int, index: int) -> None:
        self.gpu_waits.append(
            {
                "ts_ns": EPOCH_NS + round(self.now * NS), "mono_ns": round(self.now * NS),
                "pid": self.pid, "rank": self.number, "loader": loader, "epoch": epoch,
                "batch": index, "gpu_idle_ns": round(idle_s * NS),
            }
        )  # fmt: skip

    def compute(self, seconds: float, step: bool = True) -> None:
        """Work on a batch, and step the optimizer at the end."""
        self._spend(seconds, "step", None, "pipe")
        if step:
            self.steps += 1
            self.last_step = self.now

    def event(
        self,
        kind: str,
        seconds: float,
        *,
        blocking: bool = True,
        cause: str = "storage",
        **more: Any,
    ) -> None:
        """Something with a start and an end on the training thread."""
        self.events.append(
            {
                "ts_ns": EPOCH_NS + round(self.now * NS),
                "mono_ns": round(self.now * NS),
                "end_mono_ns": round((self.now + seconds) * NS),
                "pid": self.pid,
                "rank": self.number,
                "kind": kind,
                "blocking": blocking,
                "failed": False,
                "step": self.steps,
                **more,
            }
        )
        if blocking:
            self._spend(seconds, "ckpt" if kind.startswith("ckpt") else "step", None, cause)

    def idle_until(self, when: float) -> None:
        """Wait in a collective (looks like a step)."""
        if when > self.now:
            self._spend(when - self.now, "step", None, "pipe")

    def _spend(self, seconds: float, phase: str, loader: int | None, cause: str) -> None:
        self.phases.append((self.now, self.now + seconds, phase, loader, cause))
        self.now += seconds

    def samples(self) -> Iterator[tuple[float, str, int | None, str]]:
        """(time, phase, loader, class) on the sampling grid."""
        jitter = random.Random(self.pid)  # no beat between sampling and steps
        tick = int(self.phases[0][0] * self.hz) if self.phases else 0
        when = tick / self.hz
        for start, end, phase, loader, cause in self.phases:
            while when < end:
                if when >= start:
                    yield when, phase, loader, cause
                tick += 1
                when = (tick + jitter.random()) / self.hz


@dataclass
class Job:
    """Ranks on nodes, and what the sampler says of them."""

    ranks: list[Rank]
    gpus_on_node: int | None = None
    mount: str = MOUNT
    fstype: str = "nfs4"
    waits: bool = True
    calls_per_storage_s: float | None = 20.0  # 50 ms a read: slow
    busy_workers: float = 1.0

    def store(self) -> StandInStore:
        """The store of this job."""
        names = sorted({rank.node for rank in self.ranks})
        nodes = {name: self._node(name) for name in names}
        job = JobIdentity(
            cluster="lab", job="42", restart=0, user="ada", uid=1000, name="train",
            nodes=tuple(names), gpus_on_node=self.gpus_on_node,
        )  # fmt: skip
        return StandInStore(job, nodes, tuple(names), {"exit_code": 0})

    def _node(self, name: str) -> StandInNode:
        mine = [rank for rank in self.ranks if rank.node == name]
        end = max(rank.now for rank in mine)
        meta = {
            "schema": 1,
            "node": name,
            "start_ts_ns": EPOCH_NS + 95 * NS,
            "end_ts_ns": EPOCH_NS + round(end * NS),
            "clean_end": True,
            "clock": {"realtime_minus_monotonic_ns": EPOCH_NS},
            "sources": {"waits": {"state": "on" if self.waits else "off", "reason": "asked for"}},
            "ranks": [
                {
                    "rank": rank.number,
                    "pid": rank.pid,
                    "world_size": len(self.ranks) if rank.number is not None else None,
                    "first_ts_ns": EPOCH_NS + 97 * NS,
                }
                for rank in mine
            ],
            "workers_seen": sum(rank.workers for rank in mine),
        }
        node = StandInNode(name, meta)
        node.self_cost = {"cpu_s": 1.0, "children_cpu_s": 0.5, "wall_s": 600.0,
                          "rss_peak_bytes": 20 * 2**20, "bytes_written": 10**6,
                          "dropped_rows": 0, "governor": {"level": 0}}  # fmt: skip
        for rank in mine:
            node.tables["steps"] += rank.rows
            node.tables["gpu_waits"] += rank.gpu_waits
            node.tables["events"] += rank.events
            node.tables["events"] += self._looked_for_padding(rank)
            if self.waits:
                self._sample(node, rank)
        return node

    def _looked_for_padding(self, rank: Rank) -> Iterator[dict[str, Any]]:
        """As the hook does at one of the first batches; these carry no mask."""
        for row in rank.rows[3:4]:
            kept = {name: row[name] for name in ("ts_ns", "mono_ns", "pid", "rank", "step")}
            yield {
                **kept, "end_mono_ns": row["mono_ns"], "kind": "padding", "blocking": False,
                "failed": False, "detail": '{"loader": 0, "epoch": 0, "masks": false}',
            }  # fmt: skip

    def _sample(self, node: StandInNode, rank: Rank) -> None:
        """Rows of `waits` and `process`, as the sampler sums them over seconds."""
        counts: dict[tuple[int, str, int | None], Counter[str]] = defaultdict(Counter)
        for time_s, phase, loader, cause in rank.samples():
            counts[int(time_s), phase, loader][cause] += 1
        storage_s: Counter[int] = Counter()
        for (second, phase, loader), causes in counts.items():
            passes = sum(causes.values())
            role_rows = [("rank", Counter({"pipe": passes}) if rank.workers else causes)]
            if rank.workers:
                role_rows.append(("worker", self._of_workers(rank, causes)))
            elif phase == "ckpt":
                role_rows = [("rank", causes)]
            if phase == "ckpt":
                role_rows[0] = ("rank", causes)
            for role, seen in role_rows:
                storage_s[second] += seen["storage"] if role != "rank" or not rank.workers else 0
                node.tables["waits"] += self._rows(rank, second, phase, loader, role, seen, passes)
        for second in range(100, int(rank.now) + 1):
            hit_s = storage_s[second] / rank.hz
            node.tables["process"].append(self._process(rank, second, hit_s))

    def _of_workers(self, rank: Rank, causes: Counter[str]) -> Counter[str]:
        """`busy_workers` of them are in the cause, the others have nothing to do."""
        seen: Counter[str] = Counter()
        for cause, number in causes.items():
            busy = self.busy_workers if cause != "pipe" else 0
            seen[cause] += round(number * busy)
            seen["pipe"] += round(number * (rank.workers - busy))
        return seen

    def _rows(
        self,
        rank: Rank,
        second: int,
        phase: str,
        loader: int | None,
        role: str,
        seen: Counter[str],
        passes: int,
    ) -> Iterator[dict[str, Any]]:
        base = {
            "ts_ns": EPOCH_NS + (second + 1) * NS, "mono_ns": (second + 1) * NS,
            "interval_ns": NS, "rank": rank.number, "role": role, "phase": phase,
            "loader": loader, "passes": passes,
            "processes": rank.workers if role == "worker" else 1,
            **{f"n_{name}": 0 for name in WAIT_CLASSES}, "n_fault": 0,
        }  # fmt: skip
        if seen["storage"]:
            yield {
                **base, "mount": self.mount, "fstype": self.fstype, "wchan": "rpc_wait",
                "path": f"{self.mount}/data/shard-{second % 3}.tar", "n_storage": seen["storage"],
            }  # fmt: skip
        others = {f"n_{name}": seen[name] for name in WAIT_CLASSES if name != "storage"}
        yield {**base, **others}

    def _process(self, rank: Rank, second: int, storage_s: float) -> dict[str, Any]:
        calls = self.calls_per_storage_s
        return {
            "ts_ns": EPOCH_NS + (second + 1) * NS, "mono_ns": (second + 1) * NS,
            "interval_ns": NS, "pid": rank.pid + 1, "starttime": 1, "rank": rank.number,
            "role": "worker" if rank.workers else "rank", "comm": "pt_data_worker",
            "cpu_ns": 10**8, "majflt": 0,
            "syscr": None if calls is None else 2 + round(calls * storage_s),
            "rchar_bytes": 10**5, "read_bytes": 10**5, "blkio_delay_ns": None,
        }  # fmt: skip


def train(
    rank: Rank,
    steps: int,
    compute_s: float,
    wait: Callable[[int], tuple[float, str]],
    *,
    first_wait_s: float = 0.5,
) -> Rank:
    """One pass of `steps` steps; `wait(k)` gives (seconds, cause) of batch k."""
    for k in range(steps):
        seconds, cause = wait(k)
        rank.batch(first_wait_s if k == 0 else seconds, cause, index=k)
        rank.compute(compute_s)
    return rank


def train_together(
    ranks: list[Rank],
    steps: int,
    compute_s: float,
    wait: Callable[[int, int], tuple[float, str]],
) -> list[Rank]:
    """As :func:`train`, with an all-reduce at the end of each step; `wait(rank, k)`."""
    for k in range(steps):
        for place, rank in enumerate(ranks):
            seconds, cause = wait(place, k)
            rank.batch(0.5 if k == 0 else seconds, cause, index=k)
            rank.compute(compute_s, step=False)
        last = max(rank.now for rank in ranks)
        for rank in ranks:
            rank.idle_until(last)
            rank.compute(0.001)
    return ranks


def one_rank(workers: int = 2, **settings: Any) -> Rank:
    """The usual single process."""
    return Rank(number=0, node="n1", pid=1000, workers=workers, **settings)
