"""One finding: where, evidence, worth, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_io.analysis.reports.text.words import Line, some, wrapped
from slurm_io.incidents.library import incidents

_TOLD_HOURS = 0.01  # of GPU time: less is not worth a line


def finding_lines(finding: Mapping[str, Any], width: int) -> list[Line]:
    """Head, place, evidence, worth, remedy with its commands, the incident most like it."""
    value = finding["gpu_hours"]
    worth = f", {value:.2f} GPU hours" if value is not None and value >= 0.005 else ""
    cost = f", {finding['cost']:.2f} USD" if finding["cost"] is not None else ""
    head = f"{finding['rule']} {finding['title']}  [{finding['confidence']}{worth}{cost}]"
    lines: list[Line] = [("", ""), *wrapped(head, width, "", "bold")]
    place = _place(finding["where"])
    if place:
        lines += wrapped(f"where     {place}", width, " " * 10)
    for evidence in finding["evidence"]:
        span = f", {evidence['from']} to {evidence['to']}" if evidence["from"] else ""
        lines += wrapped(f"evidence  {evidence['text']}{span}", width, " " * 10)
    if "worth" in finding and value >= _TOLD_HOURS:
        lines += wrapped(f"worth     {finding['worth']['text']}", width, " " * 10)
    lines += wrapped(f"do        {finding['remedy']}", width, " " * 10, "bold")
    # A command is never wrapped: it is there to be copied.
    lines += [(f"          $ {command}", "") for command in finding["commands"]]
    return lines + _similar(finding.get("similar", []), width)


def _similar(ids: list[str], width: int) -> list[Line]:
    """The public incident most like it; a report of another version may name unknown ones."""
    titles = {one.id: one.title for one in incidents()}
    first = next((each for each in ids if each in titles), None)
    if first is None:
        return []
    return wrapped(f"similar   {first}: {titles[first]}", width, " " * 10, "dim")


def _place(where: Mapping[str, Any]) -> str:
    parts = []
    if where["mounts"]:
        parts.append(f"mount {', '.join(where['mounts'])}")
    if where["files"]:
        parts.append(f"files such as {where['files'][0]}")
    if where["ranks"]:
        parts.append(f"rank {some(where['ranks'])}")
    if where["nodes"]:
        parts.append(f"node {some(where['nodes'])}")
    return "; ".join(parts)
