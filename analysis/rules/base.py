"""What a rule is, what it answers, and the registry that finds them.

One rule a file. The module's name is the rule's name (``f01_loader_bound``), its docstring is the
rule's page in docs/rules with the headings of :data:`HEADINGS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, Protocol

from slurm_io.analysis.picture import Confidence, Picture
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
class Finding:
    """One thing a rule found. `lost_gpu_s`: what mending it is worth; None when not known."""

    rule: str
    severity: Severity
    confidence: Confidence
    title: str
    lost_gpu_s: float | None
    where: Place
    evidence: tuple[Evidence, ...]
    remedy: str
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """A rule's answer. `reason` says why it is quiet, or which source was missing."""

    state: Literal["fired", "quiet", "not enough evidence"]
    reason: str = ""
    findings: tuple[Finding, ...] = field(default=())


class Rule(Protocol):
    """A judge: looks at the picture, touches nothing."""

    code: str
    title: str

    def judge(self, picture: Picture) -> Answer:
        """What this rule says of the job."""


RULES: Registry[type[Rule]] = Registry("rule", "slurm_io.analysis.rules")


def too_little(picture: Picture) -> Answer | None:
    """The answer when there is not enough training to judge, else None."""
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


def iso(ts_ns: int | None) -> str | None:
    """UTC time as the report holds it, to the second."""
    if ts_ns is None or not 0 <= ts_ns < 2**62:
        return None
    return datetime.fromtimestamp(ts_ns // 1_000_000_000, UTC).isoformat().replace("+00:00", "Z")
