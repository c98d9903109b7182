"""Reads a node's report. It came over the network from a machine that may be sick: typed, bounded.

Nothing of it is believed but in its form; a report that is none is a NodeSays with a problem.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from slurm_io.reservation.model import DataSays, NodeSays

MOST_BYTES = 256 * 1024
_TEXT_CHARS = 400
_MOST_ENTRIES = 128
_LARGEST = 1 << 62
_STATES = frozenset(
    {"absent", "copying", "copied", "verifying", "ready", "degraded", "failed", "unknown"}
)
_HEALTH = frozenset({"OK", "DEGRADED", "FAIL", "UNKNOWN"})


def parse_says(node: str, asked_at_s: float, raw: bytes) -> NodeSays:
    """What `node` printed; what it calls itself is not believed."""
    if len(raw) > MOST_BYTES:
        return _none(node, asked_at_s, f"its report has more than {MOST_BYTES} bytes")
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        return _none(node, asked_at_s, "its report is no JSON")
    if not isinstance(data, dict):
        return _none(node, asked_at_s, "its report is no JSON object")
    return NodeSays(
        node=node,
        asked_at_s=asked_at_s,
        data=_data(data.get("data")),
        health=_health(data.get("health")),
        skipped=_texts(data.get("skipped")),
        drift={name: _text(value) for name, value in _items(data.get("drift"))},
        gpus=_texts(data.get("gpus")),
        strays=_texts(data.get("strays")),
        free_bytes=_count(data.get("free_bytes")),
        unread={name: _text(value) or "?" for name, value in _items(data.get("unread"))},
        problem=None,
    )


def no_answer(node: str, asked_at_s: float, problem: str) -> NodeSays:
    """A node that gave none, and why."""
    return _none(node, asked_at_s, problem)


def _none(node: str, asked_at_s: float, problem: str) -> NodeSays:
    return NodeSays(node=node, asked_at_s=asked_at_s, problem=_clean(problem))


def _data(value: Any) -> DataSays | None:
    if not isinstance(value, dict):
        return None
    state, level = value.get("state"), value.get("level")
    return DataSays(
        content_id=_text(value.get("content_id")),
        state=state if isinstance(state, str) and state in _STATES else "unknown",
        level=level if type(level) is int and -1 <= level <= 4 else -1,
        age_s=_number(value.get("age_s")),
        bytes_behind=_count(value.get("bytes_behind")),
        files_behind=_count(value.get("files_behind")),
        problem=_text(value.get("problem")),
        wanted_id=_text(value.get("wanted_id")),
        total_bytes=_count(value.get("total_bytes")),
        rate_bytes_s=_rate(value.get("rate_bytes_s")),
    )


def _health(value: Any) -> dict[str, tuple[str, str]]:
    found = {}
    for name, entry in _items(value):
        if isinstance(entry, list) and len(entry) == 2 and all(isinstance(e, str) for e in entry):
            answer = entry[0] if entry[0] in _HEALTH else "UNKNOWN"
            found[name] = (answer, _clean(entry[1]))
    return found


def _items(value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        return []
    return [(_clean(name), each) for name, each in list(value.items())[:_MOST_ENTRIES]]


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(_clean(each) for each in value[:_MOST_ENTRIES] if isinstance(each, str))


def _text(value: Any) -> str | None:
    return _clean(value) if isinstance(value, str) else None


def _clean(text: str) -> str:
    """One printable line: it goes to terminals and pages."""
    return "".join(each if each.isprintable() else "?" for each in text[:_TEXT_CHARS])


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _LARGEST else None


def _rate(value: Any) -> float | None:
    """At least 1 B/s: what is copied at less takes for ever, which JSON cannot say."""
    rate = _number(value)
    return rate if rate is not None and rate >= 1 else None


def _number(value: Any) -> float | None:
    if type(value) not in (int, float) or not 0 <= value < _LARGEST:  # nor NaN
        return None
    return float(value)
