"""What a rule is, what it answers, and the registry that finds them.

One rule a file. The module's name is the rule's name (``f01_loader_bound``), its docstring is the
rule's page in docs/rules with the headings of :data:`HEADINGS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, Protocol

from slurm_io.analysis.bounds import Range
from slurm_io.analysis.picture import Confidence, Picture
from slurm_io.analysis.watch import LEAST_WATCHED_S
from slurm_io.model import LOCAL_CLUSTER
from slurm_io.registry import Registry

HEADINGS = (
    "What it flags",
    "Why it matters",
    "Evidence",
    "What to do",
    "Known false alarms",
    "Thresholds",
)


Severity = Literal["info", "warn", "bad"]


@dataclass(frozen=True)
class Evidence:
    """One fact. `first` and `last`: ISO times it was seen between, where that means anything."""

    text: str
    metric: str
    value: float | None = None
    threshold: float | None = None
    first: str | None = None
    last: str | None = None


@dataclass(frozen=True)
class Place:
    """Where a finding was seen; empty = everywhere or not known."""

    nodes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    mounts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class LostBase:
    """What a loss is a share of: GPU-seconds, of so many GPUs, and its name."""

    gpu_s: float
    gpus: float
    text: str


@dataclass(frozen=True)
class Finding:
    """One thing a rule found. `lost_gpu_s`: what mending it is worth; None when not known.
    `lost_range`: the same as a share of its base, low to high; `lost_base`: that base, None = the
    job's training GPU time.
    `elsewhere`: training lost time to this, and storage has no part in it (the verdict looks)."""

    rule: str
    severity: Severity
    confidence: Confidence
    title: str
    lost_gpu_s: float | None
    where: Place
    evidence: tuple[Evidence, ...]
    remedy: str
    commands: tuple[str, ...] = ()
    elsewhere: bool = False
    lost_range: Range | None = None
    lost_base: LostBase | None = None


@dataclass(frozen=True)
class Answer:
    """A rule's answer. `reason` says why it is quiet, or which source was missing."""

    state: Literal["fired", "quiet", "not enough evidence"]
    reason: str = ""
    findings: tuple[Finding, ...] = field(default=())


# What must be there before a rule is asked. "steps": enough training that the hook timed;
# "training": the same, or enough that stacks show; "watch": the same, or a job watched for a while
# without any of it, of which the rule says what the machine did; "nothing": it says itself what it
# lacks.
Needs = Literal["steps", "training", "watch", "nothing"]


class Rule(Protocol):
    """A judge: looks at the picture, touches nothing. Asked through :func:`ask`."""

    code: str
    title: str
    needs: Needs

    def judge(self, picture: Picture) -> Answer:
        """What this rule says of the job, once what it `needs` is there."""


RULES: Registry[type[Rule]] = Registry("rule", "slurm_io.analysis.rules")


def ask(rule: Rule, picture: Picture) -> Answer:
    """The rule's answer; "not enough evidence" in its stead where what it needs is not there."""
    refusal = _refusal(rule.needs, picture)
    return refusal if refusal is not None else rule.judge(picture)


def _refusal(needs: Needs, picture: Picture) -> Answer | None:
    if needs == "nothing":
        return None
    if needs != "watch" or picture.timeline.processes:
        return too_little(picture, by_stacks=needs != "steps")
    if picture.watch.seconds >= LEAST_WATCHED_S:
        return None
    return too_little(picture)


def too_little(picture: Picture, by_stacks: bool = False) -> Answer | None:
    """The answer when there is not enough training to judge, else None.

    `by_stacks`: the rule can judge a job without a hook by what stacks show of it.
    """
    if picture.by_stacks is not None and picture.is_hookless and by_stacks:
        refusal = picture.by_stacks.refusal
        return Answer("not enough evidence", refusal) if refusal else None
    if not picture.timeline.processes:
        return Answer("not enough evidence", "no training batches were recorded (hook)")
    if not picture.is_enough:
        enough = picture.thresholds.enough
        return Answer(
            "not enough evidence",
            f"{picture.steps} steps in {picture.training_s:.1f} s of training: at least "
            f"{enough.verdict_steps} steps and {enough.verdict_training_s:.0f} s are needed",
        )
    return None


def no_rows(table: str) -> Answer:
    """The answer of a rule whose table holds nothing of the training. One wording for all rules:
    a report names it once."""
    return Answer("not enough evidence", f"table {table} has no rows of the training")


def sure(signals: int) -> Confidence:
    """How sure a finding is by the number of independent signals that agree."""
    return "proven" if signals > 1 else "likely" if signals else "not-proven"


def shortness(picture: Picture) -> list[Evidence]:
    """What a finding on a short run adds to its evidence, or one without a hook."""
    if picture.by_stacks is not None and picture.is_hookless:
        seen = picture.by_stacks
        return [Evidence(seen.text, "stack_windows", seen.looks.windows)]
    if not picture.watch.is_training:
        text = f"nobody saw a step: said of {picture.watch.seconds:.0f} s in which the job ran"
        return [Evidence(text, "watched_s", picture.watch.seconds)]
    if not picture.is_short:
        return []
    text = f"a short run: {picture.steps} steps in {picture.training_s:.0f} s of training"
    return [Evidence(text, "steps", picture.steps, picture.thresholds.enough.full_steps)]


def each_node(picture: Picture) -> str:
    """What goes before a command that is to run on every node: `srun`, nothing outside Slurm."""
    job = picture.store.job
    return "" if job is None or job.cluster == LOCAL_CLUSTER else "srun --ntasks-per-node=1 "


def iso(ts_ns: int | None) -> str | None:
    """UTC time as the report holds it, to the second."""
    if ts_ns is None or not 0 <= ts_ns < 2**62:
        return None
    return datetime.fromtimestamp(ts_ns // 1_000_000_000, UTC).isoformat().replace("+00:00", "Z")
