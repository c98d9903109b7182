"""How a data wait splits over its causes, for each second, when samples are few.

A second with a long wait has many samples and speaks for itself. A second with a wait of 10 ms has
one sample or none and borrows: from seconds of the same process with waits of about the same
length nearby, these from all such seconds of the process, these from the whole process. Waits of
like length are kept together so that a spike never lends its cause to ordinary seconds.
"""

from __future__ import annotations

import math

import polars as pl

from slurm_io.analysis.samples import CAUSES
from slurm_io.analysis.thresholds import Sampling

_BIN_EDGES_S = (0.01, 0.03, 0.1, 0.3)


def spread(waits: pl.DataFrame, evidence: pl.DataFrame, sampling: Sampling) -> pl.DataFrame:
    """`waits` (proc, sec, wait_s) with passes and p_<cause>…, the split of each second; in the
    order of `waits`, which is best by process and second."""
    joined = waits.join(evidence, on=["proc", "sec"], how="left", maintain_order="left")
    joined = joined.with_columns(
        pl.col("passes", *CAUSES).fill_null(0.0),
        pl.sum_horizontal(pl.col("wait_s") > edge for edge in _BIN_EDGES_S).alias("bin"),
    ).with_row_index("place")
    seen = [cause for cause in CAUSES if cause == "unknown" or joined[cause].sum() > 0]
    unused = [cause for cause in CAUSES if cause not in seen]
    priors = _priors(joined, seen, sampling)
    ordered = _by_bin(joined.drop(unused)).join(
        priors, on=["proc", "bin"], how="left", maintain_order="left"
    )
    nearby = ordered.with_columns(_rolling(name, sampling.neighbours) for name in ("passes", *seen))
    weight = sampling.prior_passes
    for near in ("near_", ""):
        nearby = nearby.with_columns(
            _shrunk(pl.col(near + cause), pl.col(near + "passes"), pl.col(f"p_{cause}"), weight)
            for cause in seen
        )
    blank = [pl.lit(0.0).alias(f"p_{cause}") for cause in unused]
    kept = nearby.select("place", "proc", "sec", "wait_s", "passes", *(f"p_{one}" for one in seen))
    in_place = kept.sort("place").with_columns(blank)
    return in_place.select("proc", "sec", "wait_s", "passes", *(f"p_{one}" for one in CAUSES))


def _by_bin(joined: pl.DataFrame) -> pl.DataFrame:
    """By process, bin and second. One stable sort by a small number where the seconds of each
    process come in order already, as they do: a third of what three keys cost."""
    second = pl.col("sec") >= pl.col("sec").shift(1)
    changed = pl.col("proc") > pl.col("proc").shift(1)
    in_order = joined.select(
        ((second & (pl.col("proc") == pl.col("proc").shift(1))) | changed).fill_null(True).all()
    ).item()
    if not in_order:
        return joined.sort("proc", "bin", "sec")
    key = pl.col("proc").cast(pl.Int64) * (len(_BIN_EDGES_S) + 1) + pl.col("bin")
    return joined.with_columns(key.alias("key")).sort("key", maintain_order=True).drop("key")


def _priors(joined: pl.DataFrame, seen: list[str], sampling: Sampling) -> pl.DataFrame:
    """(proc, bin, p_<cause>…): the bin's mean, shrunk to the process's; unknown without samples."""
    bins = joined.group_by("proc", "bin").agg(pl.col("passes", *seen).sum())
    whole = bins.with_columns(_whole(cause) for cause in seen)
    weight = sampling.prior_bin_passes
    return whole.select(
        "proc",
        "bin",
        *(_shrunk(pl.col(cause), pl.col("passes"), pl.col(f"p_{cause}"), weight) for cause in seen),
    )


def _whole(cause: str) -> pl.Expr:
    total = pl.col("passes").sum().over("proc")
    blank = 1.0 if cause == "unknown" else 0.0
    mean = pl.col(cause).sum().over("proc") / total
    return pl.when(total > 0).then(mean).otherwise(blank).alias(f"p_{cause}")


def _shrunk(count: pl.Expr, passes: pl.Expr, prior: pl.Expr, weight: float) -> pl.Expr:
    """The mean of the samples and `weight` imagined ones that look like `prior`; keeps its name."""
    return ((count + weight * prior) / (passes + weight)).alias(prior.meta.output_name())


def _rolling(column: str, window: int) -> pl.Expr:
    """near_<column>: sum over the `window` rows around each, within its process and bin."""
    rolled = pl.col(column).rolling_sum(window, min_samples=1, center=True).over("proc", "bin")
    return rolled.clip(0).alias(f"near_{column}")


def wilson(share: float, samples: float, z: float) -> tuple[float, float]:
    """Confidence interval of a share seen in `samples` samples; always holds `share`."""
    if samples <= 0:
        return 0.0, 1.0
    middle = (share * samples + z * z / 2) / (samples + z * z)
    half = z * math.sqrt(share * (1 - share) * samples + z * z / 4) / (samples + z * z)
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def effective_samples(evidence: pl.DataFrame, cause: list[str]) -> float:
    """How many independent samples the passes amount to, seen from how seconds differ.

    Samples within one second resemble one another; the spread between seconds says how much
    (variance of a ratio over clusters against that of independent draws).
    """
    passes = float(evidence["passes"].sum())
    if passes <= 0:
        return 0.0
    hits = evidence.select(pl.sum_horizontal(cause)).to_series()
    # Two imagined samples, one of each kind, keep the yardstick off zero.
    share = (min(passes, max(0.0, float(hits.sum()))) + 1) / (passes + 2)
    binomial = share * (1 - share) / passes
    clustered = float(((hits - share * evidence["passes"]) ** 2).sum()) / passes**2
    return passes / max(1.0, clustered / binomial)
