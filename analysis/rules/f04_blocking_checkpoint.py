"""F04: training stands still while checkpoints are written.

What it flags
-------------
Blocking saves (``torch.save``, a synchronous DCP save, the blocking part of an asynchronous one)
take more than 1 % of training GPU time.

Why it matters
--------------
While one rank writes, all others wait for it. The time is certain and comes again at every save.

Evidence
--------
The hook times each save on the training thread. In a synchronous job a step loses the longest save
among its ranks, times all GPUs. Samples taken during saves say whether they were in storage; if
not, serialising or copying from the GPU took the time.

What to do
----------
Save asynchronously (staging in pinned memory), save sharded from every rank, write to local NVMe
and copy from there, or save less often: the interval that loses least follows from the save's cost
and the mean time between failures (Young, Daly; docs/checkpoints.md).

Known false alarms
------------------
Background parts of asynchronous saves cost nothing here. An asynchronous save blocks while the one
before it still drains: then the interval is too short for the file system, not the call wrong. One
save behind the last step is the job's product and not counted. Little memory for dirty pages slows
a save that the file system could take.

Thresholds
----------
``thresholds.checkpoint_share`` (1 %) of training GPU time; at least 20 steps and 5 s of training.
What else is told of saves rests on ``thresholds.node_mtbf_h`` and ``thresholds.checkpoint_gb_s``,
where the site set them.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from slurm_io.analysis.by_stacks import ByStacks
from slurm_io.analysis.checkpoints.blocking import Checkpoints, find_checkpoints
from slurm_io.analysis.checkpoints.told import interval_text, is_slow, rate_text
from slurm_io.analysis.picture import Confidence, Picture
from slurm_io.analysis.plain_words import count_of
from slurm_io.analysis.rules.base import (
    RULES,
    Answer,
    Evidence,
    Finding,
    Needs,
    Place,
    iso,
)
from slurm_io.analysis.where import find_holders

_SERIOUS_SHARE = 0.05
_STORAGE_SHARE = 0.30  # of the samples in saves: below it something else takes most of the time


@RULES.register("f04_blocking_checkpoint")
class BlockingCheckpoint:
    """Training stands still while checkpoints are written."""

    code = "F04"
    title = "blocking checkpoints"
    needs: Needs = "training"

    def judge(self, picture: Picture) -> Answer:
        """Fires when blocking saves take more than their share."""
        if picture.by_stacks is not None and picture.is_hookless:
            return _by_stacks(picture, picture.by_stacks)
        share, limit = picture.losses.share("ckpt"), picture.thresholds.shares.checkpoint
        saves = find_checkpoints(picture.timeline, picture.causes)
        if saves is None:
            return Answer("quiet", "no blocking checkpoint during training")
        if share < limit:
            return Answer("quiet", f"{saves.count} checkpoints took {share:.2%} of training")
        return Answer("fired", findings=(_finding(picture, saves, share, limit),))


def _finding(picture: Picture, saves: Checkpoints, share: float, limit: float) -> Finding:
    holders = find_holders(picture.losses, picture.timeline, ("ckpt",))
    leaders = [holder for holder in holders if holder.share >= 0.10]
    folder = str(PurePosixPath(saves.path).parent) if saves.path else None
    mounts = tuple(mount.mount for mount in saves.mounts)
    place = Place(
        nodes=tuple(sorted({holder.node for holder in leaders})),
        ranks=tuple(sorted({holder.rank for holder in leaders if holder.rank is not None})),
        mounts=mounts,
        files=(saves.path,) if saves.path else (),
    )
    return Finding(
        rule="F04",
        severity="bad" if share >= _SERIOUS_SHARE else "warn",
        confidence=_confidence(saves),
        title=f"training stands still while checkpoints are written to {folder or 'storage'}",
        lost_gpu_s=picture.losses.by_cause["ckpt"],
        where=place,
        evidence=(*_evidence(saves, share, limit), *_speed(picture)),
        remedy="save asynchronously, or write to node-local NVMe and copy from there"
        + _interval(picture),
        commands=(
            "torch.distributed.checkpoint.async_save(state, checkpoint_id=PATH)",
            'torch.save(state, os.path.join(os.environ["TMPDIR"], "ckpt.pt"))  # then copy',
        ),
    )


def _by_stacks(picture: Picture, seen: ByStacks) -> Answer:
    """Nobody timed the saves: their share is known, not how many there were or what they wrote."""
    found, limit = seen.found["ckpt"], picture.thresholds.shares.checkpoint
    if found.low < limit:
        return Answer("quiet", f"stacks show checkpoints in {found.value:.2%} of training")
    text = (
        f"checkpoints took {found.value:.1%} of training GPU time "
        f"({found.low:.1%} to {found.high:.1%})"
    )
    holder = seen.holder
    ranks = (holder.rank,) if holder is not None and holder.rank is not None else ()
    finding = Finding(
        rule="F04",
        severity="bad" if found.value >= _SERIOUS_SHARE else "warn",
        confidence="likely",
        title="training stands still while checkpoints are written",
        lost_gpu_s=picture.losses.by_cause["ckpt"],
        where=Place(nodes=(holder.node,) if holder is not None else (), ranks=ranks),
        evidence=(
            Evidence(text, "checkpoint_share", found.value, limit),
            Evidence(seen.text, "stack_windows", seen.looks.windows),
        ),
        remedy="save asynchronously, or write to node-local NVMe and copy from there",
        commands=("torch.distributed.checkpoint.async_save(state, checkpoint_id=PATH)",),
    )
    return Answer("fired", findings=(finding,))


def _confidence(saves: Checkpoints) -> Confidence:
    """The stall is timed; that storage caused it needs samples from inside the saves."""
    seen = saves.storage_share
    return "proven" if seen is not None and seen >= _STORAGE_SHARE else "likely"


def _evidence(saves: Checkpoints, share: float, limit: float) -> list[Evidence]:
    first, last = iso(saves.first_ts_ns), iso(saves.last_ts_ns)
    found = [
        Evidence(
            f"blocking checkpoints took {share:.1%} of training GPU time",
            "checkpoint_share", share, limit,
        ),
        Evidence(
            f"{count_of(saves.count, 'save')}, {saves.mean_s:.2f} s each, "
            f"the longest {saves.longest_s:.2f} s",
            "checkpoint_s", saves.mean_s, None, first, last,
        ),
    ]  # fmt: skip
    if saves.bytes:
        rate = saves.bytes / (saves.mean_s * saves.count) if saves.mean_s else 0.0
        text = f"{saves.bytes / 1e6:.0f} MB written at {rate / 1e6:.0f} MB/s while training stood"
        found.append(Evidence(text, "checkpoint_bytes_per_s", rate))
    if saves.storage_share is not None:
        text = f"{saves.storage_share:.0%} of the samples taken in saves were in storage"
        found.append(
            Evidence(text, "checkpoint_storage_samples", saves.storage_share, _STORAGE_SHARE)
        )
    return found


def _interval(picture: Picture) -> str:
    """How often to save, with what that rests on (docs/checkpoints.md)."""
    seen = picture.checkpointing
    text = interval_text(seen.advice, picture.thresholds.saves) if seen is not None else None
    return f"; {text}" if text else ""


def _speed(picture: Picture) -> list[Evidence]:
    """What was reached of what the storage could take, where that is far below."""
    seen = picture.checkpointing
    if seen is None or not is_slow(seen, picture.thresholds):
        return []
    text = rate_text(seen)
    limit = picture.thresholds.saves.slow_share
    return [Evidence(text, "checkpoint_rate_share", seen.rate.share, limit)] if text else []
