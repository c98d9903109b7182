"""Simulated runs whose neighbouring steps are alike, with a known truth."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.compare.figures import Figure, Judged, judge

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Run:
    """Steps of about 0.5 s: `alike` is the correlation of neighbours, `spread` their variation,
    `spikes` the share of steps in which a burst of long waits begins, `slower` a factor on all."""

    steps: int
    alike: float = 0.0
    spread: float = 0.2
    spikes: float = 0.0
    slower: float = 1.0
    save_every: int = 0

    def frame(self, seed: int) -> pl.DataFrame:
        """As ``Side.hook``."""
        dice = random.Random(seed)
        level, burst, rows = dice.gauss(0, 1), 0, []
        for k in range(self.steps):
            level = self.alike * level + math.sqrt(1 - self.alike**2) * dice.gauss(0, 1)
            net = self.slower * 0.5 * math.exp(self.spread * level - self.spread**2 / 2)
            burst = 3 if dice.random() < self.spikes / 3 else max(0, burst - 1)
            wait = dice.expovariate(0.5) if burst else 0.02 * dice.random()
            save = 1.0 if self.save_every and k % self.save_every == 7 else 0.0
            rows.append((net + wait + save, 1.0, net + wait, 1.0, wait, wait, save))
        names = ("t", "n", "net", "weight", "data", "storage", "ckpt")
        frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Float64), orient="row")
        return frame.with_columns(pl.col("t").cum_sum().alias("progress"))


def judged(a: Run, b: Run, seed: int) -> dict[str, Judged]:
    """All figures of a comparison of two runs, by name; seeds of both sides differ."""
    frames = (a.frame(2 * seed), b.frame(2 * seed + 1))
    figures = [
        _figure("step_mean", frames, "t", "n"),
        _figure("step_p50", frames, "net", "n", 0.5),
        _figure("step_p99", frames, "net", "n", 0.99),
        _figure("data_share", frames, "data", "t"),
        _figure("ckpt_share", frames, "ckpt", "t"),
    ]
    return {one.figure.name: one for one in judge(figures, CONFIDENCE)}


def _figure(
    name: str, frames: tuple[pl.DataFrame, ...], y: str, x: str, level: float | None = None
) -> Figure:
    rows = [frame.select(y=y, x=x, progress="progress") for frame in frames]
    unit = "share" if name.endswith("share") else "s"
    return Figure(name, name, unit, "base", rows[0], rows[1], level)  # type: ignore[arg-type]
