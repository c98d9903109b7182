"""A swap for people: a line a step, then what came of it."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_io.reservation.swap.forecast import Forecast
from slurm_io.reservation.swap.model import StepReport, SwapAnswer
from slurm_io.slurm.hostlist import compress


def step_line(report: StepReport) -> str:
    """``fence       done    0.2 s  t3 is drained``."""
    took = f"{report.seconds:6.1f} s" if report.outcome != "would" else " " * 8
    return f"{report.name:<12} {report.outcome:<8}{took}  {_plain(report.text)}"


def end_lines(answer: SwapAnswer) -> list[str]:
    """What came of it, what to know, and plan B."""
    lines = [f"{answer.state:<12} {answer.text}"]
    lines += [f"note         {each}" for each in answer.facts.notes]
    if answer.facts.phases:
        phases = "  ".join(f"{name} {took_s:.1f} s" for name, took_s in answer.facts.phases.items())
        lines.append(f"phases       {phases}")
    lines += [f"plan B       {each}" for each in answer.plan_b]
    return [_plain(line) for line in lines]


def _plain(text: str) -> str:
    """Nodes and reasons say what they like: nothing of it steers a terminal."""
    return "".join(each if each.isprintable() else "?" for each in text)


def forecast_lines(found: Sequence[Forecast]) -> list[str]:
    """Nodes of a job for which the same would be done share a block."""
    if not found:
        return ["no protected job runs in this reservation: a swap would change its nodes only"]
    lines: list[str] = []
    grouped: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for each in found:
        grouped.setdefault((each.job, _body(each)), []).append(each.node)
    for (job, body), nodes in grouped.items():
        lines.append(f"job {job}, if {compress(nodes)} fails" if len(nodes) == 1 else
                     f"job {job}, if one of {compress(nodes)} fails")  # fmt: skip
        lines += [f"  {line}" for line in body]
    return lines


def _body(forecast: Forecast) -> tuple[str, ...]:
    """The steps, with the node's own name taken out so that equal ones look equal."""
    if forecast.answer is None:
        return (f"nothing could be done: {forecast.refused}",)
    answer = forecast.answer
    lines = [step_line(each) for each in answer.steps if each.name in _SHOWN] + end_lines(answer)
    return tuple(_anonymous(line, forecast.node) for line in lines)


_SHOWN = ("choose", "verify", "clear", "requeue")


def _anonymous(line: str, node: str) -> str:
    words = line.split(" ")
    return " ".join(_without(word, node) for word in words)


def _without(word: str, node: str) -> str:
    bare = word.strip(",;:()")
    return word.replace(node, "NODE") if bare == node else word
