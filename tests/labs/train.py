"""The training lab: datasets, the command of one training run, and what its truth files say.

:mod:`tests.labs.train_job` is the script itself; it is run as a program, never imported. Each rank
leaves ``rank<N>.json``; all times are CLOCK_MONOTONIC ns of the training script itself. One entry
per step in: ``wait_start_ns wait_ns reads first_of_epoch compute_ns gc_ns reduce_ns update_ns
save_ns validate_ns step_end_ns``; one per epoch in ``iter_ns epoch_end_ns``. ``reads`` holds for
each item of the batch when its read began, when it ended, and how long the reader was blocked.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

JOB = Path(__file__).with_name("train_job.py")
PARTS = ("compute_ns", "gc_ns", "reduce_ns", "update_ns", "save_ns", "validate_ns")
CHUNK_BYTES = 2**20
HANDOVER_MAX_NS = 3_000_000
"""A stock DataLoader on a slow machine; more than this is a wait for something."""
Read = tuple[int, int, int]
"""Start, end, blocked (ns)."""


def make_dataset(folder: Path, files: int, size_bytes: int) -> Path:
    """`files` files of `size_bytes` random bytes each; random, so that nothing can compress it."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        with open(folder / f"item-{number:05d}.bin", "wb") as file:
            file.writelines(_random_chunks(size_bytes))
    return folder


def _random_chunks(size_bytes: int) -> Iterator[bytes]:
    for offset in range(0, size_bytes, CHUNK_BYTES):
        yield os.urandom(min(CHUNK_BYTES, size_bytes - offset))


def train_command(
    data: Path, truth: Path, options: Mapping[str, object], ranks: int = 1
) -> list[str]:
    """The command line of a run; `options` are train_job's, names with ``_`` for ``-``.

    True stands for a flag, None and False for nothing. Several ranks start under torchrun.
    """
    arguments = ["--data", os.fspath(data), "--truth", os.fspath(truth)]
    for name, value in options.items():
        if value is None or value is False:
            continue
        arguments.append("--" + name.replace("_", "-"))
        if value is not True:
            arguments.append(str(value))
    return [*_launcher(ranks), os.fspath(JOB), *arguments]


def _launcher(ranks: int) -> list[str]:
    if ranks == 1:
        return [sys.executable]
    # Port 0 of the c10d store: any free one, so that two runs on a machine do not meet.
    return [
        sys.executable, "-m", "torch.distributed.run", "--nnodes=1", f"--nproc-per-node={ranks}",
        "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--rdzv-id=lab",
        "--local-addr=127.0.0.1",
    ]  # fmt: skip


def train_environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """One compute thread per process, gloo over the loopback: two cores are enough."""
    environment = dict(os.environ if base is None else base)
    return environment | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


@dataclass(frozen=True)
class RankTruth:
    """One rank's stopwatch. Everything but `lists` covers the training window only.

    The window opens when the first batch has arrived and closes at the end of the last step; the
    first wait and whatever came before (imports, start of the workers) are start-up.
    """

    rank: int
    lists: Mapping[str, list[int]]
    reads: list[list[Read]]

    @cached_property
    def start_ns(self) -> int:
        """When the first batch had arrived."""
        return self.lists["wait_start_ns"][0] + self.lists["wait_ns"][0]

    @cached_property
    def end_ns(self) -> int:
        """End of the last step, its checkpoint and validation included."""
        return self.lists["step_end_ns"][-1]

    @property
    def window_ns(self) -> int:
        """Length of the training window."""
        return self.end_ns - self.start_ns

    @property
    def steps(self) -> int:
        """Steps made, the first one included."""
        return len(self.lists["step_end_ns"])

    def waits_ns(self) -> list[int]:
        """The wait before each step of the window; 0 for the first, which is start-up."""
        return [0, *self.lists["wait_ns"][1:]]

    def storage_waits_ns(self) -> list[int]:
        """Of each wait, the part storage caused.

        While some read of this rank was blocked, and not more than the wait less the loader's
        hand-over. Any read, not only those of the awaited batch: a worker blocked in a page fault
        keeps its interpreter lock and cannot hand over a batch that has long been ready.
        """
        reads = blocked_intervals_ns(self.reads)
        return [
            max(0, min(wait_ns - self.handover_ns, overlap_ns(reads, start_ns, start_ns + wait_ns)))
            for start_ns, wait_ns in zip(self.lists["wait_start_ns"], self.waits_ns(), strict=True)
        ]

    @cached_property
    def handover_ns(self) -> int:
        """What the loader itself costs a step: the median wait for a batch that was ready before.

        0 when there is none: without workers everything is read inside the wait.
        """
        ready = [
            wait_ns
            for start_ns, wait_ns, reads in zip(
                self.lists["wait_start_ns"], self.waits_ns(), self.reads, strict=True
            )
            if max(read[1] for read in reads) < start_ns and wait_ns
        ]
        return min(int(median(ready)), HANDOVER_MAX_NS) if ready else 0

    def fastest_waits_ns(self) -> int:
        """P10 of the waits: the loader's own hand-over cost where storage is fast."""
        waits = sorted(self.waits_ns()[1:])
        return waits[len(waits) // 10]

    def total_ns(self, name: str) -> int:
        """Sum of one list over the window."""
        return sum(self.lists[name])

    def local_step_ns(self) -> list[int]:
        """The rest of each step without the collective: compute, collections, optimizer."""
        names = ("compute_ns", "gc_ns", "update_ns")
        return [sum(parts) for parts in zip(*(self.lists[name] for name in names), strict=True)]

    def accounted_ns(self) -> int:
        """Waits and all parts of the steps, loader starts and ends between epochs."""
        parts = sum(self.total_ns(name) for name in PARTS) + sum(self.waits_ns())
        return parts + sum(self.lists["iter_ns"][1:]) + sum(self.lists["epoch_end_ns"][:-1])


def read_truth(folder: Path) -> list[RankTruth]:
    """All ranks' files, by rank. Raises FileNotFoundError when there is none."""
    found = [_read_rank(path) for path in sorted(folder.glob("rank*.json"))]
    if not found:
        raise FileNotFoundError(f"no rank*.json in {folder}: the training run did not finish")
    return sorted(found, key=lambda truth: truth.rank)


def _read_rank(path: Path) -> RankTruth:
    data: dict[str, Any] = json.loads(path.read_text())
    reads = data.pop("reads")
    lists = {name: value for name, value in data.items() if isinstance(value, list)}
    return RankTruth(data["rank"], lists, reads)


def blocked_intervals_ns(reads: list[list[Read]]) -> list[tuple[int, int]]:
    """The union of the times in which a read was blocked, as disjoint intervals in order."""
    united: list[tuple[int, int]] = []
    for start_ns, end_ns in sorted((end - blocked, end) for _, end, blocked in chain(*reads)):
        if united and start_ns <= united[-1][1]:
            united[-1] = (united[-1][0], max(end_ns, united[-1][1]))
        else:
            united.append((start_ns, end_ns))
    return united


def overlap_ns(intervals: list[tuple[int, int]], start_ns: int, end_ns: int) -> int:
    """How much of [start, end) the disjoint `intervals` cover."""
    return sum(max(0, min(end_ns, b) - max(start_ns, a)) for a, b in intervals)


def storage_idle_share(ranks: list[RankTruth]) -> float:
    """The truth for ``idle.storage.value``: GPU-seconds lost to storage over those of training.

    Numerator, per step k: (max over ranks of (w + c) - max over ranks of c) x ranks, where w is
    that rank's `storage_waits_ns` and c its `local_step_ns`; with one rank this is w. Plus, per
    step, the longest blocking checkpoint of any rank x ranks. Denominator: the ranks' windows
    added up. A checkpoint counts whole, on fast storage too, as DESIGN 9 has it.
    """
    lost_ns = sum(map(_step_loss_ns, _by_step(ranks, "storage"), _by_step(ranks, "local")))
    saves_ns: int = sum(
        max(saves) for saves in zip(*(r.lists["save_ns"] for r in ranks), strict=True)
    )
    return len(ranks) * (lost_ns + saves_ns) / sum(rank.window_ns for rank in ranks)


def _by_step(ranks: list[RankTruth], what: str) -> list[tuple[int, ...]]:
    columns = [r.storage_waits_ns() if what == "storage" else r.local_step_ns() for r in ranks]
    return list(zip(*columns, strict=True))


def _step_loss_ns(waits_ns: tuple[int, ...], rest_ns: tuple[int, ...]) -> int:
    return max(w + c for w, c in zip(waits_ns, rest_ns, strict=True)) - max(rest_ns)
