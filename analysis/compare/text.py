"""The comparison as a screen of plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

from slurm_io.analysis.reports.text.words import printable

WIDTH = 96
_LEAST_WIDTH = 40
_MOST_SHOWN = 1000
_MOST_WORDS = 2000  # compared one by one: the time goes with their square
_WORDS = {
    "slower": "B IS SLOWER",
    "faster": "B IS FASTER",
    "differs": "THEY DIFFER",
    "no-difference-proven": "NO DIFFERENCE PROVEN",
    "not-comparable": "NOT COMPARABLE",
}


def render(comparison: Mapping[str, Any], columns: int = WIDTH) -> str:
    """Verdict first, then figures, settings and notes; control characters shown, never sent.

    As wide as `columns`, but no wider than reads well and no narrower than can be read.
    """
    width = max(_LEAST_WIDTH, min(columns, WIDTH))
    head = [f"slurm-io compare: {_WORDS[comparison['verdict']]}", f"{_reason(comparison)}.", ""]
    lines = [line for text in head for line in _wrapped(text, width, "") or [""]]
    lines += [line for text in _body(comparison) for line in _wrapped(text, width) or [""]]
    return "\n".join(lines) + "\n"


def _reason(comparison: Mapping[str, Any]) -> str:
    reason = str(comparison["verdict_reason"])
    return f"{reason[:1].upper()}{reason[1:]}"


def _body(comparison: Mapping[str, Any]) -> list[str]:
    return [
        *(_job(name.upper(), comparison[name]) for name in "ab"),
        "",
        *map(_figure, comparison["figures"]),
        "",
        *_changes(comparison),
        *_reads(comparison),
        *(f"note      {note}" for note in comparison["notes"]),
        f"method    {comparison['method']}",
    ]


def _job(name: str, side: Mapping[str, Any]) -> str:
    job = side["job"]
    named = f" ({_cut(job['name'])})" if job["name"] else ""
    steps = "?" if side["steps"] is None else side["steps"]
    return (
        f"{name}         job {job['id'] or '?'}{named}, {steps} steps, verdict {side['verdict']}, "
        f"{side['store']}"
    )


def _figure(one: Mapping[str, Any]) -> str:
    values = f"{_value(one['a'], one['unit'])} -> {_value(one['b'], one['unit'])}"
    head = f"{one['label']}: {values}"
    if one["state"] == "not tested":
        return f"          {head}: not tested ({one['reason']})"
    gap = f"{_gap(one, 'difference')} ({_gap(one, 'low')} to {_gap(one, 'high')})"
    if one["state"] == "differs":
        return f"differs   {head}: {gap}"
    if one["state"] == "negligible":
        return f"=         {head}: {gap}, too little to be of account"
    if one["unit"] == "share" and one["smallest_seen"] >= 1:
        return f"=         {head}: no difference proven, none of any size could have been seen"
    least = _gap(one, "smallest_seen").lstrip("+")
    return f"=         {head}: no difference proven, smallest that could have been seen: {least}"


def _gap(one: Mapping[str, Any], name: str) -> str:
    value = one[name]
    if one["unit"] == "share":
        return f"{value * 100:+.2f} points"
    return f"{value * 100:+.1f}%"


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return "?"
    if unit == "share":
        return f"{value * 100:.1f}%"
    if unit == "ms":
        return f"{value:.3g} ms"
    return f"{value:.3g} s" if value >= 1 else f"{value * 1000:.3g} ms"


def _changes(comparison: Mapping[str, Any]) -> list[str]:
    lines = []
    for one in comparison["changed"]:
        lines.append(f"changed   {one['setting']}: {_changed(one)}")
    if not comparison["changed"]:
        lines.append("changed   no setting that the stores tell of")
    for one in comparison["known_of_one"]:
        side, value = ("A", one["a"]) if one["b"] is None else ("B", one["b"])
        lines.append(f"unknown   {one['setting']}: only {side} tells ({_cut(_set(value))})")
    if comparison["same"]:
        lines.append(f"same      {', '.join(comparison['same'])}")
    return lines


def _changed(change: Mapping[str, Any]) -> str:
    a, b = _set(change["a"]), _set(change["b"])
    is_command = change["setting"] == "command" and max(a.count(" "), b.count(" ")) < _MOST_WORDS
    return _cut(_words(a, b)) if is_command else f"{_cut(a)} -> {_cut(b)}"


def _words(a: str, b: str) -> str:
    """Of two command lines the words that differ, each with the option before it."""
    left, right = a.split(), b.split()
    found = []
    for tag, i, j, k, end in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag != "equal":
            option = left[i - 1 : i] if i and left[i - 1].startswith("-") else []
            sides = (" ".join(option + words) or "nothing" for words in (left[i:j], right[k:end]))
            found.append(" -> ".join(sides))
    return "; ".join(found)


def _reads(comparison: Mapping[str, Any]) -> list[str]:
    return [f"reads {name.upper()}   {text}" for name in "ab" for text in comparison[name]["reads"]]


def _set(values: list[str]) -> str:
    return ", ".join(values)


def _cut(text: str) -> str:
    """What fits a screen; the rest is in the JSON."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]} ..."


def _wrapped(text: str, width: int, indent: str = " " * 10) -> list[str]:
    wrapper = textwrap.TextWrapper(
        width=width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return wrapper.wrap(printable(text))
