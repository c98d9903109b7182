"""F02: some steps take many times as long as the others, and storage is why.

What it flags
-------------
The slowest steps (P99) take at least three times the median and at least a second more, and most
of their excess is waiting for storage.

Why it matters
--------------
In a synchronous job one late rank stops all GPUs, so rare slow reads cost far more than their mean
latency says. Spikes also point at another remedy than constant slowness: a contended server, a
hot file, an eviction.

Evidence
--------
Step durations without checkpoints, evaluations and pass starts. A step is slow from twice the
median; it is explained by storage when at least half of its excess is exposed storage wait. At
least 60 % of the slow steps must be, and three times as often as ordinary steps. Where drops of
throughput line up with slow reads of a mount, or do not, that is said too (docs/alignment.md).

What to do
----------
Stage the dataset to node-local NVMe, or spread what is hot: restripe large shared files, spread
shards over servers, keep small files apart from large ones.

Known false alarms
------------------
Checkpoints, evaluations and pass starts are taken out. Garbage collections and slow transforms
make the same ratio: then the rule is quiet and says what the slow steps have in common. Too few
steps make P99 a single step.

Thresholds
----------
``thresholds.step_spread_ratio`` (3), ``thresholds.step_spread_s`` (1 s) and
``thresholds.step_spread_share`` (10 %); 60 % of the slow steps and three times as often, which no
key changes; at least 200 steps or 10 minutes.
"""

from __future__ import annotations

from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rules.base import (
    RULES,
    Answer,
    Evidence,
    Finding,
    Needs,
    Place,
    iso,
)
from slurm_io.analysis.variance import StepVariance


@RULES.register("f02_step_variance")
class StepVarianceFromStorage:
    """Some steps take many times the median because of storage."""

    code = "F02"
    title = "rare slow reads stall whole steps"
    needs: Needs = "steps"

    def judge(self, picture: Picture) -> Answer:
        """Fires when steps vary and storage explains it."""
        seen, limits = picture.variance, picture.thresholds.variance
        if picture.is_short or seen is None:
            enough = picture.thresholds.enough
            reason = f"{picture.steps} steps; P99 needs {enough.full_steps} steps or 10 minutes"
            return Answer("not enough evidence", reason)
        if not seen.varies(limits):
            return Answer("quiet", f"P99 {seen.p99_s:.2f} s, median {seen.p50_s:.2f} s")
        if not seen.is_aligned(limits):
            return Answer("quiet", _other_cause(picture, seen))
        return Answer("fired", findings=(_finding(picture, seen),))


def _other_cause(picture: Picture, seen: StepVariance) -> str:
    limit = picture.thresholds.variance.periodic_share
    what = "storage does not explain them"
    if seen.collected_share >= limit:
        what = "they are garbage collections"
    elif seen.cpu_share >= limit:
        what = "they wait for batches to be prepared"
    return f"{seen.slow_steps} slow steps of {seen.steps} ({seen.p99_s:.2f} s at P99): {what}"


def _drops(picture: Picture) -> list[Evidence]:
    """Whether drops of throughput line up with slow reads, where that can be told."""
    found = picture.alignment
    if found.state not in ("aligned", "apart"):
        return []
    return [Evidence(found.text, "alignment_p", found.p, picture.thresholds.alignment.false_alarm)]


def _finding(picture: Picture, seen: StepVariance) -> Finding:
    limits, where = picture.thresholds.variance, picture.where
    mounts = tuple(mount.mount for mount in where.mounts if mount.share >= 0.10)
    times = [iso(ts_ns) for ts_ns in seen.slow_ts_ns]
    evidence = (
        Evidence(
            f"P99 of a step is {seen.p99_s:.2f} s, the median {seen.p50_s:.2f} s",
            "p99_over_p50", seen.p99_s / max(seen.p50_s, 1e-9), limits.p99_over_p50,
        ),
        Evidence(
            f"{seen.aligned_share:.0%} of {seen.slow_steps} slow steps were waiting for storage, "
            f"{seen.lift:.0f} times as often as the others",
            "aligned_share", seen.aligned_share, limits.aligned_share,
            times[0] if times else None, times[-1] if times else None,
        ),
        *_drops(picture),
    )  # fmt: skip
    return Finding(
        rule="F02",
        severity="warn",
        confidence=picture.storage_confidence,
        title=f"rare slow reads from {', '.join(mounts) or 'storage'} stall whole steps",
        lost_gpu_s=None,  # part of what F01 counts
        where=Place(
            nodes=tuple(sorted({holder.node for holder in where.holders if holder.share >= 0.10})),
            ranks=tuple(
                sorted(
                    {
                        holder.rank
                        for holder in where.holders
                        if holder.rank is not None and holder.share >= 0.10
                    }
                )
            ),
            mounts=mounts,
            files=tuple(path for mount in where.mounts for path in mount.files)[:5],
        ),
        evidence=evidence,
        remedy="stage the dataset to node-local NVMe; on the shared file system spread what is hot "
        "(restripe large shared files, keep small files apart from large ones)",
        commands=tuple(
            f"lfs migrate -c 4 {mount.mount}/LARGE_SHARED_FILE"
            for mount in where.mounts
            if mount.fstype == "lustre"
        ),
    )
