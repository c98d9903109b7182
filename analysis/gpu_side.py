"""What the GPUs themselves say of the waits: for how much of the waiting their idle time is known.

The hook measures it with events on the stream that trains (docs/gpu-proof.md). Some waits always
stay unmeasured (very short ones, the last of a process, those during the capture of a graph); for
these the bounds of :mod:`.exposure` hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from slurm_io.analysis.facts import mapping, ranks_of, whole
from slurm_io.analysis.inputs import StoreView

_MEASURED_FROM = 0.9
_TOLD_S = 0.05
_OTHERS = "of streams that were not asked, or of other programs"


@dataclass(frozen=True)
class GpuSide:
    """Waits of processes that used CUDA (or HIP), in seconds; `idle_s` is of the measured ones.

    `dropped`, `skipped`: waits without a pair of events (none free; a graph was being captured).
    `failed`: processes in which an error ended the measuring. `doubted`: processes in which the
    driver saw more work than the events allow, `room` the least part of the idle time that is left
    (:mod:`.gpu_doubt`).
    """

    waits: int
    measured: int
    waited_s: float
    measured_s: float
    idle_s: float
    dropped: int
    skipped: int
    failed: int
    doubted: int
    room: float

    @property
    def share(self) -> float:
        """Of the waiting, the part behind which the GPU's idle time is known."""
        return min(1.0, self.measured_s / self.waited_s) if self.waited_s > 0 else 0.0

    @property
    def hidden_s(self) -> float:
        """Waiting in which the GPU still had work: nothing was lost."""
        return max(0.0, self.measured_s - self.idle_s)

    @property
    def is_measured(self) -> bool:
        """Whether what is left to bounds is too little to matter, and nothing speaks against it."""
        return self.share >= _MEASURED_FROM and not self.doubted

    @property
    def text(self) -> str:
        """For people."""
        if not self.measured:
            return f"idle time was not measured behind any of {self.waits} waits{self._why()}"
        known = f"behind {self.share:.1%} of the waiting" if self.share < 1 else "behind all waits"
        idle = f"idle {self.idle_s:.1f} s of {self.measured_s:.1f} s waited"
        rest = ", queued work hid the rest" if self.hidden_s >= _TOLD_S else ""
        why = "" if self.is_measured else self._why()
        return f"idle time measured {known}: {idle}{rest}{why}"

    def _why(self) -> str:
        reasons = (
            (self.failed, "an error ended it in {} of the processes"),
            (self.dropped, "{} waits had no free pair of events"),
            (self.skipped, "{} waits fell into the capture of a graph"),
            (self.doubted, f"the driver saw more work on the GPUs of {{}} processes: {_OTHERS}"),
        )
        told = [text.format(number) for number, text in reasons if number]
        return f" ({'; '.join(told)})" if told else ""

    def to_dict(self) -> dict[str, Any]:
        """As the report's ``coverage`` holds it; shares are of the waiting."""
        return {
            "waits": self.waits,
            "measured": self.measured,
            "measured_share": round(self.share, 6),
            "waited_s": round(self.waited_s, 3),
            "idle_s": round(self.idle_s, 3) if self.measured else None,
            "text": self.text,
        }


def find_gpu_side(rows: pl.DataFrame, store: StoreView) -> GpuSide | None:
    """From batches with their losses (:mod:`.causes`); None where no process used CUDA."""
    used = rows.filter("cuda")
    if used.is_empty():
        return None
    known = pl.col("gpu_idle_s").is_not_null()
    sums = used.select(
        pl.len().alias("waits"),
        known.sum().alias("measured"),
        pl.col("wait_s").sum().alias("waited_s"),
        pl.col("wait_s").filter(known).sum().alias("measured_s"),
        pl.col("gpu_idle_s").sum().alias("idle_s"),
        pl.col("proc").filter(pl.col("room") < 1).n_unique().alias("doubted"),
        pl.col("room").min(),
    ).row(0, named=True)
    told = [
        mapping(rank.get("gpu_idle")) for view in store.nodes.values() for rank in ranks_of(view)
    ]
    return GpuSide(
        **sums,
        dropped=_sum(told, "dropped"),
        skipped=_sum(told, "skipped"),
        failed=sum(facts.get("failed") is True for facts in told),
    )


def _sum(told: list[dict[str, Any]], name: str) -> int:
    numbers = [whole(facts.get(name)) for facts in told]
    return sum(number for number in numbers if number is not None and number > 0)
