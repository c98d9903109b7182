"""JSON objects that fit into a ring: at most 640 bytes, else their longest text loses its front."""

from __future__ import annotations

import json

from . import record

TYPE_CHECKING = False  # importing typing costs a bare interpreter 5 ms
if TYPE_CHECKING:
    from typing import Any


_MOST_CAUSES = 4
_WORKER_LOST = "DataLoader worker (pid"
_WORKER_TEXT = 60
_WRITE_FAILED = ("inline_container.cc", "iostream error", "PytorchStreamWriter failed writing")


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


def of_error(error: BaseException) -> dict[str, Any]:
    """What an exception was: its class; an errno behind it; how a DataLoader's worker was lost;
    whether torch's own file writer failed, which tells no errno (a full disk looks like that).

    No other text of it is kept: it may hold anything. Raises what the exception's own methods do.
    """
    fields: dict[str, Any] = {"error": type(error).__name__}
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if cause is None:
            break
        if isinstance(cause, OSError) and isinstance(cause.errno, int):
            fields.setdefault("errno", cause.errno)
        if type(cause) is RuntimeError and str(cause).startswith(_WORKER_LOST):
            # "DataLoader worker (pid 7) is killed by signal: Bus error. It is possible ..."
            fields["worker"] = str(cause).partition(". ")[0].rpartition(") ")[2][:_WORKER_TEXT]
        if type(cause) is RuntimeError and any(mark in str(cause) for mark in _WRITE_FAILED):
            fields["write_failed"] = True
        cause = cause.__cause__ or cause.__context__
    return fields


def parts(raw: bytes) -> list[bytes]:
    """`raw` in pieces of at most 40 bytes."""
    size = record.TEXT_PART_BYTES
    return [raw[start : start + size] for start in range(0, len(raw), size)]


def _dump(fields: dict[str, Any]) -> bytes:
    # backslashreplace: a file name that is no UTF-8 stays valid JSON, as the escape of a surrogate
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode("utf-8", "backslashreplace")
