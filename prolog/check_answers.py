"""The parent's side of one check: a child's answer is data, and is looked at before it is believed.

Whatever is not of the right shape and size makes the whole check UNKNOWN.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from slurm_io.errors import HostError
from slurm_io.host.probe import Answer
from slurm_io.model import CheckResult, FaultKind
from slurm_io.records import replace

MAX_ANSWER_BYTES = 2 * 1024 * 1024
MAX_RESULTS = 64
MAX_TEXT_CHARS = 500
MAX_SUBJECT_CHARS = 4200
MAX_LINES = 40
MAX_FACTS_BYTES = 32768
MAX_FACTS_DEPTH = 16
MAX_LEFT = 8
_ANSWERS = ("OK", "DEGRADED", "FAIL", "UNKNOWN")
_KINDS = ("node", "shared", "job")


def results_of(name: str, kind: FaultKind, answer: Answer) -> tuple[CheckResult, ...]:
    """What one check found; one UNKNOWN with the reason when its child did not say so properly."""
    if answer.state != "ok":
        return (unknown(name, kind, answer.reason),)
    try:
        return read_results(name, answer.value["results"])
    except (HostError, ValueError, KeyError, TypeError, RecursionError) as error:
        return (unknown(name, kind, f"a fault of ours: its answer is malformed ({error})"),)


def cpu_s_of(answer: Answer) -> float | None:
    """CPU that the child used; None when it did not live to say so."""
    used = answer.value.get("cpu_s") if isinstance(answer.value, dict) else None
    return used if isinstance(used, float) and 0 <= used < 1e6 else None


def left_pids_of(answer: Answer) -> tuple[int, ...]:
    """Processes that the child says it had to leave behind."""
    left = answer.value.get("left") if isinstance(answer.value, dict) else None
    if not isinstance(left, list):
        return ()
    return tuple(pid for pid in left[:MAX_LEFT] if type(pid) is int and 0 < pid < 1 << 31)


def unknown(name: str, kind: FaultKind, reason: str) -> CheckResult:
    """The result of a check that could not tell."""
    return CheckResult(name, "UNKNOWN", kind, one_line(reason, MAX_TEXT_CHARS) or "no reason given")


def read_results(name: str, value: object) -> tuple[CheckResult, ...]:
    """Check the shape of what a child sent. Raises HostError saying what is wrong."""
    if not isinstance(value, list) or len(value) > MAX_RESULTS:
        raise HostError(f"not a list of at most {MAX_RESULTS} results")
    return tuple(_result(name, each) for each in value)


def one_line(text: str, limit: int) -> str:
    """Printable, on one line, at most `limit` characters."""
    cut = text if len(text) <= limit else text[: limit - 3] + "..."
    return "".join(each if each.isprintable() else "?" for each in cut)


def _result(name: str, value: object) -> CheckResult:
    if not isinstance(value, dict):
        raise HostError("a result is no object")
    if value.get("answer") not in _ANSWERS or value.get("kind") not in _KINDS:
        raise HostError("a result has no answer or no kind")
    facts, left_out = _facts(value.get("facts"))
    subject = value.get("subject")
    read = CheckResult(
        check=name,
        answer=value["answer"],
        kind=value["kind"],
        text=one_line(_text(value.get("text")), MAX_TEXT_CHARS),
        subject=one_line(_text(subject), MAX_SUBJECT_CHARS) if subject is not None else None,
        facts=facts,
        not_looked_at=(*_lines(value.get("not_looked_at")), *left_out),
        commands=_lines(value.get("commands")),
        record_only=value.get("record_only") is True,
    )
    # A statement without a word is no statement, least of all "OK".
    return read if read.text else replace(read, answer="UNKNOWN", text="the check said nothing")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise HostError("a text is none")
    return value


def _lines(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise HostError("a list of lines is none")
    lines = tuple(one_line(_text(each), MAX_SUBJECT_CHARS) for each in value[:MAX_LINES])
    return lines if len(value) <= MAX_LINES else (*lines, f"and {len(value) - MAX_LINES} more")


def _facts(value: object) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The facts as JSON holds them; facts of absurd size are left out, and that is said."""
    if not isinstance(value, dict) or not _is_shallow(value, MAX_FACTS_DEPTH):
        raise HostError("its facts are no object, or nested too deep")
    text = json.dumps(value, allow_nan=False)
    if len(text) > MAX_FACTS_BYTES:
        return {}, (f"facts of {len(text)} B: too long to keep",)
    return value, ()


def _is_shallow(value: object, depth: int) -> bool:
    """Else writing them down with all the others could fail where reading them did not."""
    if not isinstance(value, dict | list | tuple):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_is_shallow(each, depth - 1) for each in inner)
