"""The comparison as a screen of plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

_WIDTH = 96
_WORDS = {
    "slower": "B IS SLOWER",
    "faster": "B IS FASTER",
    "differs": "THEY DIFFER",
    "no-difference-proven": "NO DIFFERENCE PROVEN",
    "not-comparable": "NOT COMPARABLE",
}


def render(comparison: Mapping[str, Any]) -> str:
    """Verdict first, then figures, settings and notes; control characters shown, never sent."""
    lines = [
        f"slurm-io compare: {_WORDS[comparison['verdict']]}",
        *_wrapped(f"{comparison['verdict_reason']}.", ""),
        "",
        *(line for name in "ab" for line in _job(name.upper(), comparison[name])),
        "",
        *(line for one in comparison["figures"] for line in _figure(one)),
        "",
        *_changes(comparison),
        *_reads(comparison),
        *(line for note in comparison["notes"] for line in _wrapped(f"note      {note}")),
        *_wrapped(f"method    {comparison['method']}"),
    ]
    return "\n".join(lines) + "\n"


def _job(name: str, side: Mapping[str, Any]) -> list[str]:
    job = side["job"]
    named = f" ({job['name']})" if job["name"] else ""
    steps = "?" if side["steps"] is None else side["steps"]
    return _wrapped(
        f"{name}         job {job['id']}{named}, {steps} steps, verdict {side['verdict']}, "
        f"{side['store']}"
    )


def _figure(one: Mapping[str, Any]) -> list[str]:
    values = f"{_value(one['a'], one['unit'])} -> {_value(one['b'], one['unit'])}"
    head = f"{one['label']}: {values}"
    if one["state"] == "not tested":
        return _wrapped(f"          {head}: not tested ({one['reason']})")
    gap = f"{_gap(one, 'difference')} ({_gap(one, 'low')} to {_gap(one, 'high')})"
    if one["state"] == "differs":
        return _wrapped(f"differs   {head}: {gap}")
    if one["state"] == "negligible":
        return _wrapped(f"=         {head}: {gap}, too little to be of account")
    least = _gap(one, "smallest_seen").lstrip("+")
    return _wrapped(
        f"=         {head}: no difference proven, smallest that could have been seen: {least}"
    )


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
        lines += _wrapped(f"changed   {one['setting']}: {_changed(one)}")
    if not comparison["changed"]:
        lines.append("changed   no setting that the stores tell of")
    for one in comparison["known_of_one"]:
        side, value = ("A", one["a"]) if one["b"] is None else ("B", one["b"])
        lines += _wrapped(f"unknown   {one['setting']}: only {side} tells ({_set(value)})")
    if comparison["same"]:
        lines += _wrapped(f"same      {', '.join(comparison['same'])}")
    return lines


def _changed(change: Mapping[str, Any]) -> str:
    a, b = _set(change["a"]), _set(change["b"])
    return _words(a, b) if change["setting"] == "command" else f"{a} -> {b}"


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
    return [
        line
        for name in "ab"
        for text in comparison[name]["reads"]
        for line in _wrapped(f"reads {name.upper()}   {text}")
    ]


def _set(values: list[str]) -> str:
    return ", ".join(values)


def _wrapped(text: str, indent: str = " " * 10) -> list[str]:
    wrapper = textwrap.TextWrapper(
        width=_WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return wrapper.wrap(_printable(text))


def _printable(text: str) -> str:
    """A path of the job's must not drive the terminal."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
