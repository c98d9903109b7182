"""F09: memory grows with the steps, as a loader's index does.

What it flags
-------------
Anonymous and shared memory of the job grow all through training, while storage is quiet. Or: shared
memory took a large part of the node from the start, and some steps are slow for no reason that
storage, collections or preparation explain.

Why it matters
--------------
A loader that keeps an index of every sample it will ever draw (or copies one into every worker)
fills memory until throughput drops, then until the job is killed. It looks like the file system and
stays when the data moves to a local disk: a team that was sure of its storage lost weeks to it.

Evidence
--------
Memory of the job's control group without page cache, in ten equal parts of training, and the
process that grew most. A second, independent signal: steps that become slower towards the end,
their waits for storage taken off. Where drops of throughput do not line up with slow reads that is
said too (docs/alignment.md). Size at the start tells too: such an index is as large as the
number of configured steps asks for, before the first of them is made.

What to do
----------
Another loader, or an index in a file that is mapped instead of built; fewer workers; numpy arrays
in place of Python lists in the dataset (a forked worker copies every list it looks at). Run the
same loader with a tenth of the configured steps: if the drops get smaller, it is the index.

Known false alarms
------------------
Page cache is not counted, and a resident set that grows because mapped files are read is not
either. Shuffle buffers and allocators fill in the beginning and then stay: growth must go on
through eight of ten parts. Metrics kept in lists for the whole run grow as well, and deserve the
same look. Without a control group only the node's shared memory is seen, another job's included.

Thresholds
----------
``thresholds.growth_share`` (10 % of what was held in the beginning) and 256 MiB, over at least
1000 steps; steps slower by 10 % for the second signal.
"""

from __future__ import annotations

from slurm_io.analysis.growth import (
    Grower,
    Growth,
    find_grower,
    find_growth,
    shared_share,
    step_slowdown,
)
from slurm_io.analysis.picture import Confidence, Picture
from slurm_io.analysis.rule_limits import Growth as Limits
from slurm_io.analysis.rules.base import (
    RULES,
    Answer,
    Evidence,
    Finding,
    Needs,
    Place,
    no_rows,
    shortness,
    sure,
)

_GIB = 2**30
_REMEDY = (
    "another loader, or an index that is mapped from a file instead of built in memory; arrays in "
    "place of Python lists in the dataset; a run with a tenth of the configured steps shows "
    "whether it is the index"
)


@RULES.register("f09_index_growth")
class IndexGrowth:
    """Memory grows with the steps while storage is quiet."""

    code = "F09"
    title = "memory grows with the steps (index, shared memory)"
    needs: Needs = "steps"

    def judge(self, picture: Picture) -> Answer:
        """Growth first, then size from the start."""
        limits = picture.thresholds.rules.growth
        large = _large(picture)
        if large is not None:
            return Answer("fired", findings=(large,))
        if picture.steps < limits.steps:
            reason = f"{picture.steps} steps; growth needs {limits.steps} steps to be told"
            return Answer("not enough evidence", reason)
        nodes = find_growth(picture.tables, picture.timeline, limits.parts)
        if not nodes:
            return no_rows("cgroup")
        growing = [one for one in nodes if _grows(one, limits)]
        if not growing:
            most = max(nodes, key=lambda one: one.grown)
            return Answer("quiet", f"{most.what} grew by {_size(max(0.0, most.grown))}")
        return Answer("fired", findings=(_finding(picture, growing, limits),))


def _grows(one: Growth, limits: Limits) -> bool:
    enough = max(limits.least_bytes, limits.share * one.began)
    return one.grown >= enough and one.rising_share >= limits.rising_share


def _storage_is_quiet(picture: Picture) -> bool:
    return picture.data_storage.value < picture.thresholds.shares.data_storage


def _finding(picture: Picture, growing: list[Growth], limits: Limits) -> Finding:
    worst = max(growing, key=lambda one: one.grown)
    slower = step_slowdown(picture.losses)
    is_slower = slower is not None and slower >= limits.slower_ratio
    quiet = _storage_is_quiet(picture)
    grower = find_grower(picture.tables, picture.timeline)
    evidence = [
        Evidence(
            f"{worst.what} on {worst.node} grew from {_size(worst.began)} to "
            f"{_size(worst.began + worst.grown)} in {picture.steps} steps "
            f"({_size(worst.grown / picture.steps)} a step), in {worst.rising_share:.0%} of the "
            "parts of training",
            "held_bytes_grown", worst.grown, max(limits.least_bytes, limits.share * worst.began),
        ),
        *_who(grower),
        *_slower(slower, limits),
        _storage(picture),
        *_drops(picture),
    ]  # fmt: skip
    return Finding(
        rule="F09",
        severity="warn",
        confidence=_confidence(worst.is_ours, is_slower, quiet),
        title=f"memory grows with the steps on {len(growing)} node{'s' * (len(growing) != 1)}",
        lost_gpu_s=None,
        where=Place(
            nodes=tuple(one.node for one in growing),
            ranks=(grower.rank,) if grower is not None and grower.rank is not None else (),
        ),
        evidence=(*evidence, *shortness(picture)),
        remedy=_REMEDY,
        commands=_commands(),
    )


def _confidence(is_ours: bool, is_slower: bool, quiet: bool) -> Confidence:
    """With storage loud it may be both: then the steps' own part must have grown too."""
    if quiet:
        return sure(is_ours + is_slower)
    return "likely" if is_ours and is_slower else "not-proven"


def _drops(picture: Picture) -> list[Evidence]:
    """Whether drops of throughput are storage's, where that can be told (alignment)."""
    found = picture.alignment
    if found.state not in ("aligned", "apart"):
        return []
    return [Evidence(found.text, "alignment_p", found.p, picture.thresholds.alignment.false_alarm)]


def _who(grower: Grower | None) -> list[Evidence]:
    if grower is None:
        return []
    whose = f" of rank {grower.rank}" if grower.rank is not None else ""
    text = f"the {grower.role} process {grower.comm}{whose} grew most, by {_size(grower.grown)}"
    return [Evidence(text, "rss_bytes_grown", grower.grown)]


def _slower(ratio: float | None, limits: Limits) -> list[Evidence]:
    if ratio is None:
        return []
    change = f"{ratio - 1:.0%} slower" if ratio >= 1 else f"{1 - ratio:.0%} faster"
    text = (
        f"the last third of the steps, without waits for storage, was {change} than the first "
        "(medians)"
    )
    return [Evidence(text, "step_slowdown", ratio, limits.slower_ratio)]


def _storage(picture: Picture) -> Evidence:
    share, limit = picture.data_storage.value, picture.thresholds.shares.data_storage
    word = "quiet" if _storage_is_quiet(picture) else "not quiet"
    text = f"storage was {word}: waiting for it took {share:.1%} of training GPU time"
    return Evidence(text, "data_storage_share", share, limit)


def _large(picture: Picture) -> Finding | None:
    """Shared memory that was there from the start, and slow steps that nothing else explains."""
    steps, variance = picture.variance, picture.thresholds.variance
    if picture.is_short or steps is None or not steps.varies(variance):
        return None
    explained = (steps.collected_share, steps.cpu_share)
    if steps.is_aligned(variance) or max(explained) >= variance.periodic_share:
        return None
    seen = shared_share(picture.tables, picture.timeline)
    limit = picture.thresholds.rules.growth.large_share
    if seen is None or seen[0] < limit:
        return None
    share, held, node = seen
    return Finding(
        rule="F09",
        severity="warn",
        confidence="not-proven",
        title="large shared memory from the start, and slow steps that storage does not explain",
        lost_gpu_s=None,
        where=Place(nodes=(node,)),
        evidence=(
            Evidence(
                f"{_size(held)} of shared memory on {node} when training began, {share:.0%} of "
                "the node's memory",
                "shmem_share", share, limit,
            ),
            Evidence(
                f"P99 of a step is {steps.p99_s:.2f} s, the median {steps.p50_s:.2f} s; storage "
                f"explains {steps.aligned_share:.0%} of the slow ones",
                "aligned_share", steps.aligned_share, variance.aligned_share,
            ),
        ),
        remedy=_REMEDY,
        commands=_commands(),
    )  # fmt: skip


def _commands() -> tuple[str, ...]:
    return (
        "ls -lhS /dev/shm | head",
        "grep -E '^(Rss|Pss|Anonymous|Shared)' /proc/PID/smaps_rollup  # of the process above",
    )


def _size(number: float) -> str:
    if number >= _GIB:
        return f"{number / _GIB:.1f} GiB"
    return f"{number / 2**20:.0f} MiB" if number >= 2**20 else f"{number / 1024:.1f} KiB"
