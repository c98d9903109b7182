"""One call of an engine, of which nothing is believed: every file ends as brought or failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from slurm_io.staging.beneath import Folder
from slurm_io.staging.stage.engines.base import Engine, FetchOptions
from slurm_io.staging.stage.model import Batch, Failure, Fetched
from slurm_io.staging.stage.room import engine_path
from slurm_io.staging.stage.sharing import Item

_NUMBERS = count(1)


@dataclass
class Brought:
    """Files without a failure are there, as far as the engine can tell."""

    failures: dict[str, Failure] = field(default_factory=dict)


def bring(engine: Engine, items: Sequence[Item], slot: Folder, options: FetchOptions) -> Brought:
    """Let the engine bring files: whole ones in one call, damaged ones piece by piece."""
    brought, room = Brought(), engine_path(slot)
    mend = getattr(engine, "fetch_ranges", None)
    whole = [item for item in items if item.ranges is None or (item.ranges and mend is None)]
    for item in items:
        if item.ranges and mend is not None:
            try:
                answer = mend(item.entry, item.ranges, room, options)
            except Exception as error:  # noqa: BLE001 - an engine's fault costs a try, not the stage
                answer = _fault([item], error)
            _enter(brought, [item], answer)
    if whole:
        batch = Batch(next(_NUMBERS), tuple(item.entry for item in whole))
        try:
            answer = engine.fetch(batch, room, options)
        except Exception as error:  # noqa: BLE001
            answer = _fault(whole, error)
        _enter(brought, whole, answer)
    return brought


def _enter(brought: Brought, items: Sequence[Item], answer: Fetched) -> None:
    asked = {item.entry.path for item in items}
    for failure in answer.failures:
        if failure.path in asked:
            brought.failures[failure.path] = failure
    silent = asked - set(answer.done) - brought.failures.keys()
    for path in silent:
        brought.failures[path] = Failure(path, "the engine said nothing of it", "link")


def _fault(items: Sequence[Item], error: Exception) -> Fetched:
    text = f"fault in the engine ({type(error).__name__}: {error})"
    return Fetched((), tuple(Failure(item.entry.path, text, "link") for item in items))
