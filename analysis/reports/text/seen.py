"""What the prolog checked, what was seen and what was not, and what seeing cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slurm_io.analysis.checks import NO_ANSWERS
from slurm_io.analysis.reports.text.words import Line, or_unknown, percent, some, wrapped

_SHORT_S = 10.0  # starting up is most of what the sampler costs in a shorter run
_MAX_MISSING = 6
_MAX_CHECKS = 8
_EMPTY = re.compile(r"(table \w+) has no rows of the training")


def check_lines(checks: list[Mapping[str, Any]], width: int) -> list[Line]:
    """One line for all that is well, one for each thing that is not."""
    if not checks:
        return []
    odd = [each for each in checks if each["answer"] != "OK"]
    well = sum(each["node_count"] for each in checks) - sum(each["node_count"] for each in odd)
    lines: list[Line] = [("", "")]
    if well:
        lines.append((f"checks    {well} OK", ""))
    for each in odd[:_MAX_CHECKS]:
        text = f"checks    {each['answer']} {each['check']} on {_on(each)}: {_what(each)}"
        lines += wrapped(text, width, " " * 10, "bold" if each["answer"] == "FAIL" else "")
    more = len(odd) - _MAX_CHECKS
    return [*lines, (f"          and {more} more (see the JSON report)", "")] if more > 0 else lines


def _on(check: Mapping[str, Any]) -> str:
    return some([*check["nodes"], *([""] * (check["node_count"] - len(check["nodes"])))])


def _what(check: Mapping[str, Any]) -> str:
    subject, text = check["subject"], check["text"]
    return f"{subject}: {text}" if subject and subject not in text else str(text)


def coverage_lines(seen: Mapping[str, Any], width: int) -> list[Line]:
    """Which nodes, ranks and sources were seen, and what was not, with the reasons."""
    states = ", ".join(f"{name} {seen[name]}" for name in ("hook", "waits", "gpu", "stacks"))
    if any(one["reason"] == NO_ANSWERS for one in seen["missing"]):
        states += ", checks off"
    expected = max(len(seen["nodes_expected"]), len(seen["nodes_seen"]))
    processes = (
        f"seen      nodes {len(seen['nodes_seen'])} of {expected}, ranks {seen['ranks_seen']}, "
        f"workers {or_unknown(seen['workers_seen'])}; {states}"
    )
    lines: list[Line] = [("", ""), *wrapped(processes, width, " " * 10)]
    if seen.get("gpu_side"):
        lines += wrapped(f"gpu side  {seen['gpu_side']['text']}", width, " " * 10)
    for text in _log_texts(seen.get("log")):
        lines += wrapped(f"log       {text}", width, " " * 10)
    for text in _log_texts(seen.get("stack_check")):
        lines += wrapped(f"stacks    {text}", width, " " * 10)
    missing = _by_reason([one for one in seen["missing"] if one["reason"] != NO_ANSWERS])
    for reason, sources in list(missing.items())[:_MAX_MISSING]:
        lines += wrapped(f"not seen  {some(sources)}: {reason}", width, " " * 10)
    more = len(missing) - _MAX_MISSING
    return [*lines, (f"          and {more} more (see the JSON report)", "")] if more > 0 else lines


def _log_texts(log: Mapping[str, Any] | None) -> list[str]:
    """What another source than the hook says, and a warning where the hook does not agree."""
    if log is None:
        return []
    return [log["text"], *([log["note"]] if log["note"] else [])]


def _by_reason(missing: list[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Reason -> all sources it holds for: three rules without batches are one line, and so are
    rules whose tables are empty."""
    grouped: dict[str, list[str]] = {}
    empty = [found[1] for one in missing if (found := _EMPTY.fullmatch(one["reason"]))]
    tables = ", ".join(dict.fromkeys(empty))
    for one in missing:
        reason = one["reason"]
        if len(empty) > 1 and _EMPTY.fullmatch(reason):
            reason = f"no rows of the training in {tables}"
        grouped.setdefault(reason, []).append(one["source"])
    return grouped


def overhead_lines(cost: Mapping[str, Any], wall_s: float | None, width: int) -> list[Line]:
    """What the sampler cost."""
    if cost["cpu_s"] is None:
        return []
    tells = cost["cpu_share"] is not None and (wall_s is None or wall_s >= _SHORT_S)
    share = f" ({percent(cost['cpu_share'], 2)} of a core)" if tells else ""
    memory = f", {cost['rss_mb']:.0f} MiB" if cost["rss_mb"] is not None else ""
    volume = f", {cost['bytes'] / 1e6:.1f} MB written" if cost["bytes"] is not None else ""
    text = f"own cost  {cost['cpu_s']:.1f} s CPU{share}{memory}{volume}"
    lines = wrapped(text, width, " " * 10, "dim")
    slowed = (cost["governor"] or {}).get("text")
    if slowed:
        lines += wrapped(f"          kept low by {slowed}", width, " " * 10, "dim")
    return lines
