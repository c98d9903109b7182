"""F25: reading waits while a checkpoint is written in the background.

What it flags
-------------
Asynchronous saves whose writing, beside training, makes batches late: data waits are longer while a
checkpoint is written than between two of them, and that costs at least 1 % of training.

Why it matters
--------------
An asynchronous save looks free, for the save call returns at once. The bytes still go through the
same client, network and servers as the dataset's, and what a save no longer costs comes back as
data waits that nobody puts down to it.

Evidence
--------
Waits for data (hook) in the seconds of background writes against those of the rest, on the node
that wrote longest, over at least six saves. How easily such a difference comes by chance is told by
rotating the waits within each cycle (docs/checkpoints.md); at most 1 % of jobs in which writing
disturbs nothing reach it.

What to do
----------
Write checkpoints to another file system than the dataset's, or to node-local NVMe and copy from
there with a limited rate. Fewer writer threads or ranks at a time; save less often where saves come
closer together than failures ask for. Or take the reads away: the dataset on node-local NVMe.

Known false alarms
------------------
The blocking part of the save leaves the loader time to fill its queue, which hides some of the
effect and never makes one. Serialising for the write burns CPU beside the loader's workers: then
they are short of CPU and not of storage, and moving the checkpoint does not help. Strictly periodic
work of the training loop that always follows a save (a validation batch, a metric) moves with it.

Thresholds
----------
``thresholds.checkpoint_share`` (1 %) of the node's training, waited beyond the usual; a false alarm
rate of 1 %, which no key changes.
"""

from __future__ import annotations

from slurm_io.analysis.checkpoints.seen import Checkpointing
from slurm_io.analysis.checkpoints.told import disturbance_text
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rules.base import (
    RULES,
    Answer,
    Evidence,
    Finding,
    Needs,
    Place,
    shortness,
)

_SERIOUS_SHARE = 0.05


@RULES.register("f25_background_write")
class BackgroundWrite:
    """Reading waits while a checkpoint is written in the background."""

    code = "F25"
    title = "reads wait while checkpoints are written"
    needs: Needs = "steps"

    def judge(self, picture: Picture) -> Answer:
        """Fires where background writes cost data waits that chance does not explain."""
        seen = picture.checkpointing
        if seen is None or all(one.background_s is None for one in seen.saves):
            return Answer("quiet", "no checkpoint was written beside training")
        found, limit = seen.interference, picture.thresholds.shares.checkpoint
        if found.p is None:
            return Answer("quiet", found.reason or "not tested")
        if seen.disturbance is None:
            return Answer("quiet", f"waits are no longer during writes (p {found.p:.2f})")
        if seen.disturbance < limit:
            text = f"background writes cost {seen.disturbance:.2%} of training in data waits"
            return Answer("quiet", text)
        return Answer("fired", findings=(_finding(picture, seen, seen.disturbance, limit),))


def _finding(picture: Picture, seen: Checkpointing, cost: float, limit: float) -> Finding:
    found = seen.interference
    text = f"waiting beyond the usual took {cost:.1%} of training"
    evidence = [
        Evidence(text, "background_write_share", cost, limit),
        Evidence(
            disturbance_text(seen) or "", "background_write_p", found.p,
            picture.thresholds.alignment.false_alarm,
        ),
    ]  # fmt: skip
    return Finding(
        rule="F25",
        severity="bad" if cost >= _SERIOUS_SHARE else "warn",
        confidence="likely",
        title=f"reads wait while checkpoints are written to {seen.mount or 'storage'}",
        lost_gpu_s=None,  # part of what F01 counts
        where=Place(
            nodes=(found.node,) if found.node is not None else (),
            mounts=(seen.mount,) if seen.mount is not None else (),
        ),
        evidence=(*evidence, *shortness(picture)),
        remedy="write checkpoints to another file system than the dataset's, or to node-local NVMe "
        "and copy from there at a limited rate",
        commands=('rsync --bwlimit=200M "$TMPDIR/ckpt/" CHECKPOINT_FOLDER/',),
    )
