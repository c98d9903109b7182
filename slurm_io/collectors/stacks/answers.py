"""What a window's child answered, checked: it belongs to the job's user and may say anything."""

from __future__ import annotations

from slurm_io.records import dataclass

_STATES = frozenset(("data_wait", "ckpt", "collective", "compute", "import", "gc", "other"))
_ROLES = frozenset(("rank", "worker"))
_SUBS = frozenset((
    "reading", "decoding", "transform", "collate", "idle", "put-blocked", "unknown", "workers",
    "receiving", "epoch", "dispatcher", "async", "restore", "gpu", "metadata", "waiting",
    "start-up",
))  # fmt: skip
_LONGEST_TEXT = 2000
_MOST_SAMPLES = 1000
_SLACK_NS = 2_000_000_000

Cells = tuple[int, str, str, str | None, int, int, str, str]
"""end_ns, role, state, sub, samples, certain, why, folded."""


@dataclass(frozen=True)
class Answered:
    """`refused` is "" for a window that was recorded."""

    rows: tuple[Cells, ...] = ()
    instants: int = 0
    torn: int = 0
    refused: str = ""


def read_answer(value: object, from_ns: int, to_ns: int) -> Answered:
    """An Answered for any value; rows outside the time of the window are no rows."""
    if not isinstance(value, dict):
        return Answered(refused="its answer cannot be read")
    refused = value.get("refused")
    if refused is not None:
        return Answered(refused=_line(refused) or "no reason given")
    rows, instants, torn = value.get("rows"), value.get("instants"), value.get("torn")
    if not isinstance(rows, list) or not _is_count(instants) or not _is_count(torn):
        return Answered(refused="its answer cannot be read")
    good = [
        cells for row in rows
        if (cells := _cells(row)) is not None
        and from_ns - _SLACK_NS <= cells[0] <= to_ns + _SLACK_NS
    ]  # fmt: skip
    return Answered(tuple(good), instants, torn)  # type: ignore[arg-type]


def _cells(row: object) -> Cells | None:
    if not isinstance(row, list) or len(row) != 8:
        return None
    end_ns, role, state, sub, samples, certain, why, folded = row
    good = (
        type(end_ns) is int
        and isinstance(role, str) and role in _ROLES
        and isinstance(state, str) and state in _STATES
        and (sub is None or isinstance(sub, str) and sub in _SUBS)
        and _is_count(samples) and _is_count(certain)
    )  # fmt: skip
    return (end_ns, role, state, sub, samples, certain, _line(why), _line(folded)) if good else None


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST_SAMPLES


def _line(text: object) -> str:
    """Printable, one line, of limited length, and such that UTF-8 can hold it."""
    words = text if isinstance(text, str) else ""
    return "".join(c if c.isprintable() else "?" for c in words[:_LONGEST_TEXT])
