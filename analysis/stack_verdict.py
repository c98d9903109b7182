"""The job's one word where no hook was and stacks stand for it.

Stacks are samples, so both ends of their ranges count. A class names the job when the *lower* end
of its share reaches its threshold; of several the largest. Health needs the *upper* end of
storage's share below its threshold. What lies between is ``not-proven``, and the reason says what
would tell. In this order:

1. Classes by their value, the largest first: an unknown cause at or above its threshold ->
   ``not-proven``; storage with two witnesses, checkpoints, preparation on enough samples, the
   loader's machinery, each with its lower end at its threshold -> that class.
2. Storage or checkpoints may still reach their threshold -> ``not-proven``.
3. Waits for data reach the threshold, and storage cannot be their cause -> ``not-storage``.
4. All together below 5 % -> ``healthy``; else ``not-proven``.
"""

from __future__ import annotations

from dataclasses import dataclass

from slurm_io.analysis.by_stacks import ByStacks
from slurm_io.analysis.picture import Picture

_WORDS = {
    "storage": "waiting for reads from storage",
    "checkpoint": "standing still for checkpoints",
    "cpu-prep": "waiting for batches to be prepared on the CPU",
    "pipeline": "waiting for the loader's own machinery",
}  # fmt: skip
_MORE = "a longer run, a larger stacks_share, or the hook would tell"


@dataclass(frozen=True)
class _Class:
    word: str
    found: str
    limit: float


def judge_by_stacks(picture: Picture) -> tuple[str, str]:
    """(verdict, reason)."""
    seen = picture.by_stacks
    assert seen is not None
    reached = _largest(picture, seen)
    if reached is not None:
        return reached
    return _of_none(picture, seen)


def _classes(picture: Picture) -> list[_Class]:
    shares = picture.thresholds.shares
    return [
        _Class("storage", "data_storage", shares.data_storage),
        _Class("checkpoint", "ckpt", shares.checkpoint),
        _Class("cpu-prep", "cpu", shares.data_cpu),
        _Class("pipeline", "pipeline", shares.data_pipeline),
        _Class("unknown", "vague_wait", shares.data_unknown),
    ]


def _largest(picture: Picture, seen: ByStacks) -> tuple[str, str] | None:
    """The largest class that names the job; None when none does."""
    ordered = sorted(_classes(picture), key=lambda one: -seen.found[one.found].value)
    for one in ordered:
        found = seen.found[one.found]
        if found.value < one.limit:
            continue
        if one.word == "unknown":
            why = f"{found.value:.1%} of training waited for data for a reason that was not seen"
            return "not-proven", f"{why}; {seen.text}"
        if found.low < one.limit:
            continue
        if one.word == "storage" and not picture.has_second_witness:
            why = f"{found.value:.1%} of training looks like storage, but {picture.few_witnesses}"
            return "not-proven", f"{why}; {seen.text}"
        if one.word == "cpu-prep" and _too_few(picture):
            continue
        return one.word, f"{found.value:.1%} of training was {_WORDS[one.word]}; {seen.text}"
    return None


def _too_few(picture: Picture) -> bool:
    return picture.samples_of("cpu") < picture.thresholds.enough.cause_samples


def _of_none(picture: Picture, seen: ByStacks) -> tuple[str, str]:
    shares = picture.thresholds.shares
    storage, saves, lost = seen.found["data_storage"], seen.found["ckpt"], seen.found["lost"]
    if storage.high >= shares.data_storage or saves.value >= shares.checkpoint:
        why = (
            f"waits for storage took {storage.low:.1%} to {storage.high:.1%} of training and "
            f"checkpoints {saves.low:.1%} to {saves.high:.1%}"
        )
        return "not-proven", f"{why}: {_MORE}; {seen.text}"
    if seen.found["data_wait"].low >= shares.data_unknown:
        wait = seen.found["data_wait"].value
        why = f"{wait:.1%} of training waited for data, at most {storage.high:.1%} for storage"
        return "not-storage", f"{why}; {seen.text}"
    if lost.value < shares.together:
        return "healthy", f"all stalls together took {lost.value:.1%} of training; {seen.text}"
    why = f"all stalls together took {lost.low:.1%} to {lost.high:.1%} of training"
    return "not-proven", f"{why}: {_MORE}; {seen.text}"
