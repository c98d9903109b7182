"""The job's one word.

In this order:

1. no training batches recorded, or too few (20 steps and 5 s) -> ``not-proven``, with the reason.
   Runs below 200 steps and 10 minutes get a verdict, and findings say that they are short.
2. Candidates are the classes at or above their thresholds: storage, checkpoint, cpu-prep, pipeline,
   unknown. If none is but all together reach 5 %, every class is a candidate. The largest decides;
   of equals the first in the order just given (storage loses GPU time whoever shares the blame).
3. Unknown largest -> ``not-proven``. Storage largest without two witnesses (the wait samples and
   one other signal), preparation on fewer than 5 samples, or the pipeline while CPUs were short
   (F22's limit) -> ``not-proven``. So is any data wait that the GPUs' driver contradicts
   (:mod:`.gpu_doubt`).
4. No candidate: steps that vary because of storage (F02 fired, two witnesses) -> ``storage``.
5. No candidate, but time was lost elsewhere: garbage collections above 3 %, or steps that vary
   without storage -> ``not-storage``.
6. No candidate, and a rule found that time was lost elsewhere (slowed GPUs, a rank that computes
   longer, too few CPUs): ``not-storage`` where storage cost less than its threshold for certain
   (high), else ``not-proven``.
7. Storage might still be above its threshold (high) because the unknown is -> ``not-proven``.
8. Else ``healthy``.

Several causes at once are usual: what rules found elsewhere is named beside the largest.

Without a hook, by stacks: :mod:`.stack_verdict`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rules.base import Answer, Finding, too_little
from slurm_io.analysis.stack_verdict import judge_by_stacks

_TOLD_SHARE = 0.01
_OF_CPU = "F22"  # why preparation was slow: no cause of its own beside it
STORAGE_VARIANCE_RULE = "f02_step_variance"


@dataclass(frozen=True)
class Verdict:
    """`word` is one of the report contract's; `reason` one sentence."""

    word: str
    reason: str


@dataclass(frozen=True)
class _Class:
    word: str
    share: float
    limit: float


def decide(picture: Picture, answers: Mapping[str, Answer]) -> Verdict:
    """The verdict of a job, given what its rules answered (rule name -> answer)."""
    refusal = too_little(picture, by_stacks=True)
    if refusal is not None:
        return Verdict("not-proven", refusal.reason)
    if picture.is_hookless:
        return Verdict(*judge_by_stacks(picture))
    classes = _classes(picture)
    candidates = [one for one in classes if one.share >= one.limit]
    if not candidates and sum(one.share for one in classes) >= picture.thresholds.shares.together:
        candidates = classes
    if candidates:
        verdict = _of_largest(picture, max(candidates, key=lambda one: one.share))
        return Verdict(verdict.word, verdict.reason + _besides(answers))
    return _of_none(picture, answers, classes)


def _classes(picture: Picture) -> list[_Class]:
    """In the order that decides between equals (max keeps the first)."""
    shares, losses = picture.thresholds.shares, picture.losses
    return [
        _Class("storage", picture.data_storage.value, shares.data_storage),
        _Class("checkpoint", losses.share("ckpt"), shares.checkpoint),
        _Class("cpu-prep", losses.share("cpu"), shares.data_cpu),
        _Class("pipeline", losses.share("pipeline", "epoch"), shares.data_pipeline),
        _Class("unknown", losses.share("unknown", "sleep"), shares.data_unknown),
    ]


def _of_largest(picture: Picture, largest: _Class) -> Verdict:
    if largest.word == "unknown":
        why = f"{largest.share:.1%} of training waited for data for a reason that was not seen"
        return Verdict("not-proven", why)
    is_data = largest.word in ("storage", "cpu-prep", "pipeline")
    if is_data and picture.is_contradicted(largest.share, largest.limit):
        why = (
            f"{largest.share:.1%} of training waited for data with nothing queued, but the driver "
            "saw the GPUs at work meanwhile"
        )
        return Verdict("not-proven", why)
    if largest.word == "storage" and not picture.has_second_witness:
        why = f"{largest.share:.1%} of training looks like storage, but {picture.few_witnesses}"
        return Verdict("not-proven", why)
    if largest.word == "pipeline" and picture.cpus_are_short is not None:
        why = (
            f"{largest.share:.1%} of training waited for batches to be handed over, while tasks "
            f"queued for CPUs for {picture.cpus_are_short:.0%} of the time: those two cannot be "
            "told apart"
        )
        return Verdict("not-proven", why)
    seen, enough = picture.samples_of("cpu"), picture.thresholds.enough.cause_samples
    if largest.word == "cpu-prep" and seen < enough:
        why = f"{largest.share:.1%} of training looks like batch preparation, on {seen:.0f} samples"
        return Verdict("not-proven", why)
    words = {
        "storage": "waiting for reads from storage",
        "checkpoint": "standing still for checkpoints",
        "cpu-prep": "waiting for batches to be prepared on the CPU",
        "pipeline": "waiting for the loader's own machinery",
    }
    return Verdict(largest.word, f"{largest.share:.1%} of training was {words[largest.word]}")


def _elsewhere(answers: Mapping[str, Answer]) -> list[Finding]:
    """What rules found that cost time and is not storage."""
    found = [finding for answer in answers.values() for finding in answer.findings]
    return [one for one in found if one.elsewhere and one.confidence != "not-proven"]


def _besides(answers: Mapping[str, Answer]) -> str:
    named = [f"{one.title} ({one.rule})" for one in _elsewhere(answers) if one.rule != _OF_CPU]
    return f"; besides, {' and '.join(named)}" if named else ""


def _of_none(picture: Picture, answers: Mapping[str, Answer], classes: list[_Class]) -> Verdict:
    shares, seen = picture.thresholds.shares, picture.variance
    varying = answers.get(STORAGE_VARIANCE_RULE)
    if varying is not None and varying.state == "fired" and picture.has_second_witness:
        return Verdict("storage", "rare slow reads stall whole steps")
    if picture.collections_share >= shares.elsewhere:
        why = f"garbage collections took {picture.collections_share:.1%} of training"
        return Verdict("not-storage", why)
    if seen is not None and seen.varies(picture.thresholds.variance):
        return Verdict("not-storage", "some steps are slow, and storage does not explain them")
    elsewhere = _elsewhere(answers)
    if elsewhere:
        return _lost_elsewhere(picture, elsewhere[0])
    total = sum(one.share for one in classes)
    exposed = picture.data_storage.high >= shares.data_storage
    if exposed and classes[-1].share >= shares.data_unknown / 2:
        why = f"up to {picture.data_storage.high:.1%} of training may have waited for storage"
        return Verdict("not-proven", why)
    aside = f"{_handover(picture)}{_hidden(picture)}"
    return Verdict("healthy", f"all stalls together took {total:.1%} of training{aside}")


def _lost_elsewhere(picture: Picture, found: Finding) -> Verdict:
    most, limit = picture.data_storage.high, picture.thresholds.shares.data_storage
    why = f"{found.title} ({found.rule})"
    if most < limit:
        return Verdict(
            "not-storage", f"{why}; waits for storage took at most {most:.1%} of training"
        )
    return Verdict("not-proven", f"{why}, and up to {most:.1%} may have waited for storage")


def _handover(picture: Picture) -> str:
    """Why the pipeline's share in the report is larger, where that would puzzle its reader."""
    share = picture.losses.share("handover")
    return f"; handing batches over, {share:.1%}, is no stall" if share >= _TOLD_SHARE else ""


def _hidden(picture: Picture) -> str:
    """Waiting that the GPUs did not notice, where they were asked: it would puzzle a reader too."""
    side = picture.gpu_side
    training_s = sum(process.training_s for process in picture.timeline.processes)
    if side is None or training_s <= 0:
        return ""
    share = min(1.0, side.hidden_s / training_s)
    why = f"; for another {share:.1%} the loop waited while the GPUs had work"
    return why if share >= _TOLD_SHARE else ""
