"""What the look at the job's end said of its checkpoints: ``checkpoints.json`` of the store.

Written by :mod:`slurm_io.staging.checkpoints.look`, or by anybody: what is not of the expected kind
is as if not there, texts come out on one line and printable, and lists end somewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from slurm_io.analysis.facts import mapping, whole
from slurm_io.analysis.inputs import StoreView

_SCHEMA = 1
_MOST_SERIES, _MOST_SAVES, _MOST_PROBLEMS = 16, 8, 8
_MOST_CHARS = 400
_STATES = ("whole", "broken", "unfinished", "unknown")


@dataclass(frozen=True)
class Saved:
    """One save. `problems`: (file, what is wrong), the first of `problem_count`. `is_young`: it may
    still have been written when it was looked at."""

    path: str
    format: str | None
    state: str
    problems: tuple[tuple[str, str], ...]
    problem_count: int
    notes: tuple[str, ...]
    step: int | None
    bytes: int | None
    written_ns: int | None
    is_young: bool


@dataclass(frozen=True)
class Pointer:
    """A file or link such as ``latest``. `exists` None: it names nothing that could be looked at"""

    file: str
    names: str | None
    exists: bool | None


@dataclass(frozen=True)
class Series:
    """The newest saves of one folder, the newest first."""

    path: str
    saves: tuple[Saved, ...]
    pointers: tuple[Pointer, ...]
    reason: str | None


@dataclass(frozen=True)
class Look:
    """All that was looked at. `reason`: what could not be, in words."""

    looked_ns: int | None
    series: tuple[Series, ...]
    reason: str | None


def read_look(store: StoreView) -> Look | None:
    """None when nobody looked."""
    told = store.checkpoints
    if not isinstance(told, dict) or told.get("schema") != _SCHEMA:
        return None
    series = tuple(map(_series, _objects(told.get("folders"), _MOST_SERIES)))
    return Look(whole(told.get("looked_ts_ns")), series, _text(told.get("reason")))


def _series(told: dict[str, Any]) -> Series:
    pointers = [
        Pointer(_text(one.get("file")) or "?", _text(one.get("names")), _truth(one.get("exists")))
        for one in _objects(told.get("pointers"), _MOST_SAVES)
    ]
    saves = [
        _saved(one) for one in _objects(told.get("saves"), _MOST_SAVES) if _text(one.get("path"))
    ]
    path = _text(told.get("path")) or "?"
    return Series(path, tuple(saves), tuple(pointers), _text(told.get("reason")))


def _saved(told: dict[str, Any]) -> Saved:
    problems = tuple(
        (_text(one.get("file")) or "?", _text(one.get("text")) or "?")
        for one in _objects(told.get("problems"), _MOST_PROBLEMS)
    )
    notes = told.get("notes")
    listed = [_text(one) for one in notes[:_MOST_PROBLEMS]] if isinstance(notes, list) else []
    state = told.get("state")
    return Saved(
        path=_text(told.get("path")) or "?",
        format=_text(told.get("format")),
        state=state if state in _STATES else "unknown",
        problems=problems,
        problem_count=max(len(problems), whole(told.get("problem_count")) or 0),
        notes=tuple(one for one in listed if one),
        step=whole(told.get("step")),
        bytes=_size(told.get("bytes")),
        written_ns=whole(told.get("written_ts_ns")),
        is_young=told.get("young") is True,
    )


def _objects(value: object, most: int) -> Iterator[dict[str, Any]]:
    for one in value[:most] if isinstance(value, list) else ():
        if mapping(one):
            yield one


def _text(value: object) -> str | None:
    if not isinstance(value, str) or not value:
        return None
    return "".join(each if each.isprintable() else "?" for each in value[:_MOST_CHARS])


def _truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _size(value: object) -> int | None:
    number = whole(value)
    return number if number is not None and number >= 0 else None
