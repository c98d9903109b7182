"""One line of a reservation's history, and how it is read: strictly, whoever wrote it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from slurm_io.errors import HostError

Kind = Literal["swap", "drill", "failure", "repair"]
"""swap, drill: a spare took over, or was to. failure: a node failed. repair: it is well again."""
PHASES = (
    "detect", "decide", "clear", "reservation", "requeue", "prolog", "init", "load", "first_step",
)  # fmt: skip
"""From the failure to the first step after it; `requeue` is Slurm's delay, `load` the checkpoint's.
"""
DONE = "done"
"""The outcome of a swap or drill that ended with the job's first step on the spare."""
_LINE_BYTES = 16384
_TEXT_CHARS = 256
_MOST_GPUS = 64
_LARGEST = 1e15


@dataclass(frozen=True)
class HistoryRecord:
    """One event. `at_s`: epoch seconds of its beginning. `bad` is the failed node, `gpus` those
    it had then (UUIDs, where known); `outcome` is `DONE` or what happened instead."""

    kind: Kind
    at_s: float
    bad: str | None = None
    spare: str | None = None
    job: str | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    outcome: str = ""
    gpus: tuple[str, ...] = ()


def line_of(record: HistoryRecord) -> bytes:
    """With its newline; texts are cut to a bearable length. Raises HostError when it is too long
    even so."""
    line = json.dumps(asdict(_clipped(record)), separators=(",", ":")).encode() + b"\n"
    if len(line) > _LINE_BYTES:
        raise HostError(f"a history record of {len(line)} B is too long to keep")
    return line


def parse_line(line: bytes) -> HistoryRecord | None:
    """One line; None for what is torn, of another form or too long."""
    if not line.strip() or len(line) > _LINE_BYTES:
        return None
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return _record_of(data) if isinstance(data, dict) else None


def _record_of(data: Mapping[str, Any]) -> HistoryRecord | None:
    phases, gpus = data.get("phases", {}), data.get("gpus", [])
    texts = {name: data.get(name) for name in ("bad", "spare", "job")}
    fine = (
        data.get("kind") in get_args(Kind)
        and _is_number(data.get("at_s"))
        and all(text is None or isinstance(text, str) for text in texts.values())
        and isinstance(data.get("outcome", ""), str)
        and isinstance(phases, dict)
        and all(_is_number(value) for value in phases.values())
        and isinstance(gpus, list)
        and all(isinstance(gpu, str) for gpu in gpus)
    )
    if not fine:
        return None
    known = {name: float(value) for name, value in phases.items() if name in PHASES and value >= 0}
    return _clipped(
        HistoryRecord(
            kind=data["kind"],
            at_s=float(data["at_s"]),
            phases=known,
            outcome=data.get("outcome", ""),
            gpus=tuple(gpus),
            **texts,
        )
    )


def _is_number(value: Any) -> bool:
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and abs(value) < _LARGEST  # no NaN, no infinity


def _clipped(record: HistoryRecord) -> HistoryRecord:
    def clip(text: str | None) -> str | None:
        return None if text is None else text[:_TEXT_CHARS]

    return HistoryRecord(
        kind=record.kind,
        at_s=record.at_s,
        bad=clip(record.bad),
        spare=clip(record.spare),
        job=clip(record.job),
        phases=dict(record.phases),
        outcome=record.outcome[:_TEXT_CHARS],
        gpus=tuple(gpu[:_TEXT_CHARS] for gpu in record.gpus[:_MOST_GPUS]),
    )
