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
from slurm_io.analysis.seconds import second_key
from slurm_io.analysis.thresholds import Sampling

_BIN_EDGES_S = (0.01, 0.03, 0.1, 0.3)


def spread(waits: pl.DataFrame, evidence: pl.DataFrame, sampling: Sampling) -> pl.DataFrame:
    """`waits` (proc, sec, wait_s) with passes and p_<cause>…, the split of each second; in the
    order of `waits`, which is best by process and second."""
    told = evidence.select(second_key().alias("at"), "passes", *CAUSES)
    at = waits.select(second_key().alias("at"))
    joined = at.join(told, on="at", how="left", maintain_order="left").drop("at")
    joined = joined.with_columns(pl.col("passes", *CAUSES).fill_null(0.0))
    seen = [cause for cause in CAUSES if cause == "unknown" or joined[cause].sum() > 0]
    joined = joined.select("passes", *seen)
    ordered = _by_bin(waits, joined)
    priors = _priors(ordered, seen, sampling)
    ordered = ordered.drop("proc").join(priors, on="key", how="left", maintain_order="left")
    in_place = ordered.select("place", *(_split(cause, sampling) for cause in seen)).sort("place")
    blank = [pl.lit(0.0).alias(f"p_{cause}") for cause in CAUSES if cause not in seen]
    found = waits.select("proc", "sec", "wait_s").with_columns(
        joined["passes"], *in_place.drop("place").get_columns(), *blank
    )
    return found.select("proc", "sec", "wait_s", "passes", *(f"p_{one}" for one in CAUSES))


def _split(cause: str, sampling: Sampling) -> pl.Expr:
    """p_<cause> of each second: its own samples, beside those nearby, beside those of its bin."""
    prior, weight = pl.col(f"p_{cause}"), sampling.prior_passes
    near, of = (_rolling(name, sampling.neighbours) for name in (cause, "passes"))
    nearby = _shrunk(near, of, prior, weight)
    return _shrunk(pl.col(cause), pl.col("passes"), nearby, weight)


def _by_bin(waits: pl.DataFrame, counts: pl.DataFrame) -> pl.DataFrame:
    """`counts` of the seconds of `waits` by process, bin and second, with proc, `place` (where each
    stood) and `key` (of process and bin). One stable sort by a small number where the seconds of
    each process come in order already, as they do: a third of what three keys cost."""
    is_sorted = waits.select(second_key()).to_series().is_sorted()
    which = pl.sum_horizontal(pl.col("wait_s") > edge for edge in _BIN_EDGES_S)
    key = pl.col("proc") * (len(_BIN_EDGES_S) + 1) + which.cast(pl.Int32)
    placed = waits.select("proc", "sec", key.alias("key")).with_columns(counts.get_columns())
    placed = placed.with_row_index("place")
    order = ["key"] if is_sorted else ["key", "sec"]
    return placed.sort(order, maintain_order=True).drop("sec").set_sorted("key")


def _priors(ordered: pl.DataFrame, seen: list[str], sampling: Sampling) -> pl.DataFrame:
    """(key, p_<cause>…): the bin's mean, shrunk to the process's; unknown without samples."""
    bins = ordered.group_by("key").agg(pl.first("proc"), pl.col("passes", *seen).sum())
    whole = bins.with_columns(_whole(cause) for cause in seen)
    weight = sampling.prior_bin_passes
    return whole.select(
        "key",
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
    """Sum over the `window` rows around each, within its process and bin."""
    rolled = pl.col(column).rolling_sum(window, min_samples=1, center=True).over("key")
    return rolled.clip(0)


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
