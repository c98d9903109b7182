"""JSON objects that fit into a ring: at most 640 bytes, else their longest text loses its front."""

from __future__ import annotations

import json

from . import record

TYPE_CHECKING = False  # importing typing costs a bare interpreter 5 ms
if TYPE_CHECKING:
    from typing import Any


def encode(fields: dict[str, Any], limit_bytes: int = record.TEXT_BYTES) -> bytes:
    """The object as JSON; the longest string keeps its end, marked "cut", until all of it fits."""
    raw = _dump(fields)
    while len(raw) > limit_bytes:
        longest = max(fields, key=lambda name: len(str(fields[name])))
        excess = len(raw) - limit_bytes + len(',"cut":true')
        kept = str(fields[longest])[max(1, excess // 4) :]  # a character is at most 4 to 6 bytes
        fields = dict(fields, **{longest: kept, "cut": True})
        raw = _dump(fields)
    return raw


def parts(raw: bytes) -> list[bytes]:
    """`raw` in pieces of at most 40 bytes."""
    size = record.TEXT_PART_BYTES
    return [raw[start : start + size] for start in range(0, len(raw), size)]


def _dump(fields: dict[str, Any]) -> bytes:
    # backslashreplace: a file name that is no UTF-8 stays valid JSON, as the escape of a surrogate
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode("utf-8", "backslashreplace")
