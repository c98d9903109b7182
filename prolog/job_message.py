"""What the user reads in the job's output: which check, which node, what is wrong, what to do."""

from __future__ import annotations

from slurm_io.prolog.check_answers import one_line
from slurm_io.prolog.policy import Judged, Verdict

MAX_LINES = 20
MAX_LINE_CHARS = 300
_MAX_COMMANDS = 2
_STRONGEST_FIRST = ("drain", "stop", "warn")


def message_lines(verdict: Verdict, node: str) -> list[str]:
    """Lines for the job's output, the gravest first; [] when there is nothing to say."""
    told = [each for each in verdict.judged if each.action in _STRONGEST_FIRST]
    told.sort(key=lambda each: _STRONGEST_FIRST.index(each.action))
    end = _end(verdict, node)
    lines: list[str] = []
    for count, each in enumerate(told):
        entry = _entry(each, node)
        if len(lines) + len(entry) + len(end) + 1 > MAX_LINES:
            lines.append(f"slurm-io: and {len(told) - count} more; slurm-io check shows them")
            break
        lines += entry
    return [one_line(line, MAX_LINE_CHARS) for line in (*lines, *end)]


def _entry(judged: Judged, node: str) -> list[str]:
    result = judged.result
    subject = f"{result.subject}: " if result.subject and result.subject not in result.text else ""
    head = f"slurm-io: {result.check} {result.answer} on {node}: {subject}{result.text}"
    commands = result.commands[:_MAX_COMMANDS] if result.answer != "UNKNOWN" else ()
    return [head, *(f"slurm-io:   $ {command}" for command in commands)]


def _end(verdict: Verdict, node: str) -> list[str]:
    if verdict.drains:
        return [f"slurm-io: {node} is faulty: nothing was started there. Submit the job again."]
    if verdict.stops:
        return ["slurm-io: the job was stopped before it began. Mend this and submit it again."]
    return []
