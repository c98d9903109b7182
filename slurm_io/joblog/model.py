"""What lines say (readings) and what becomes of them (records)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from slurm_io.joblog.stamps import Stamp

Kind = Literal["step", "progress", "loss", "eval", "ckpt_save", "run_end", "torn"]
Detail = Mapping[str, Any]

LONGEST_LINE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """One line, cleaned. `label`: its printer as a launcher names it; `at_byte`: where it began."""

    text: str
    label: str
    at_byte: int


@dataclass(frozen=True, slots=True)
class Bar:
    """One state of a progress bar (tqdm or rich). `total` is None where the loop has no length.

    `postfix` holds ``key=value`` pairs as printed; `rate` e.g. ``44.14it/s``.
    """

    description: str
    n: int
    total: int | None
    elapsed_s: float | None
    rate: str
    postfix: Mapping[str, str]
    is_rich: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """What one line, block or bar says by itself.

    `kind`: "step" (one training step, or a mean up to it), "progress" (state of a bar), "loss" (a
    line with neither step nor time), "eval", "ckpt_save", "run_end" (a training's own summary),
    "torn" (the beginning of such a line whose rest is missing).
    `part` tells the lines apart that together describe one step. `amends`: it only adds to the last
    reading of its kind. `new_run`: another training begins with it. `at_byte`: where its block
    began, if that was before this line. `detail` has JSON values: docs/joblog.md.
    """

    kind: Kind
    step: int | None = None
    step_time_s: float | None = None
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    part: str = ""
    amends: bool = False
    new_run: bool = False
    at_byte: int | None = None
    detail: Detail = field(default_factory=dict)


TORN = Reading("torn")


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One row: a reading set in relation to those before it.

    `run` counts trainings in this log from 1: a step counter that starts again begins a new one.
    """

    source: str
    kind: Kind
    run: int
    step: int | None
    step_time_s: float | None
    samples_per_s: float | None
    tokens_per_s: float | None
    stamp: Stamp | None
    at_byte: int
    detail: Detail


@dataclass(slots=True)
class Counts:
    """What a log held. `torn_at`: byte offsets of the last torn lines; `faults`: lines at which a
    parser of ours failed, which never should be."""

    bytes_read: int = 0
    bytes_skipped: int = 0
    records: int = 0
    torn_lines: int = 0
    long_lines: int = 0
    late_duplicates: int = 0
    faults: int = 0
    torn_at: list[int] = field(default_factory=list)
