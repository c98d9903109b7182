"""What the prologs said of the job's dataset: one answer for each node that looked.

The facts are those of the prolog's dataset check. A store of an older version has fewer of them,
and any store may hold anything: what is not of its kind is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slurm_io.analysis.checks import NO_ANSWERS, each_result
from slurm_io.analysis.facts import mapping, whole
from slurm_io.analysis.inputs import StoreView
from slurm_io.analysis.plain_words import one_line, plain_commands

UNASKED = (
    "no prolog looked at the dataset: name it (slurm-io: dataset=NAME), and its dataset check does"
)
# What files may be and the copy still counts as there.
_HARMLESS = frozenset(("extra", "debris", "touched", "evicted", "suspect"))
_MOST_ID = 64


@dataclass(frozen=True)
class RecordFacts:
    """The node's own record. `age_s`: since its verify, by the node's clock; None = not known."""

    content_id: str | None
    state: str | None
    age_s: float | None


@dataclass(frozen=True)
class DatasetAnswer:
    """One node's. `level`: the deepest that was finished, 0 = the record only. `bad`: files that
    are missing or wrong, by reason. `wrong_version`: the id that the record names instead of
    `content_id`. `described`: the id that the manifest describes instead."""

    node: str
    answer: str
    text: str
    dataset: str | None
    tier: str | None
    content_id: str | None
    level: int | None
    files: int | None
    bad: Mapping[str, int]
    folder_missing: bool | None
    mount_absent: bool
    absent_mount: str | None
    wrong_version: str | None
    described: str | None
    used_record: bool
    record: RecordFacts | None
    commands: tuple[str, ...]


def unasked(store: StoreView) -> str:
    """Why there is no answer: one wording for all rules, so that a report says it once."""
    return UNASKED if any(True for _ in each_result(store)) else NO_ANSWERS


def dataset_answers(store: StoreView) -> tuple[DatasetAnswer, ...]:
    """By the nodes' names."""
    found: dict[str, DatasetAnswer] = {}
    for node, result in each_result(store):
        if result["check"] == "dataset":
            found.setdefault(node, _read(node, result))
    return tuple(found.values())


def _read(node: str, result: Mapping[str, Any]) -> DatasetAnswer:
    facts = mapping(result.get("facts"))
    absent = _words(facts.get("absent_mount"), 300)
    missing = facts.get("folder_missing")
    return DatasetAnswer(
        node=node,
        answer=result["answer"],
        text=one_line(result["text"]),
        dataset=_words(result.get("subject"), 300),
        tier=_words(facts.get("tier")),
        content_id=_words(facts.get("content_id")),
        level=whole(facts.get("level")),
        files=whole(facts.get("files")),
        bad=_bad(facts.get("counts")),
        folder_missing=missing if isinstance(missing, bool) else None,
        # The check lays nothing else on the node.
        mount_absent=absent is not None or result.get("kind") == "node",
        absent_mount=absent,
        wrong_version=_words(facts.get("wrong_version")),
        described=_words(facts.get("described")),
        used_record=facts.get("used_record") is True,
        record=_record(facts.get("record")),
        commands=plain_commands(result.get("commands")),
    )


def _bad(told: object) -> dict[str, int]:
    counts = {one_line(str(why), 32): whole(count) or 0 for why, count in mapping(told).items()}
    return {why: n for why, n in sorted(counts.items()) if n > 0 and why not in _HARMLESS}


def _record(told: object) -> RecordFacts | None:
    if not isinstance(told, dict):
        return None
    age = told.get("age_s")
    is_number = isinstance(age, (int, float)) and not isinstance(age, bool)
    # A negative age is a clock that was set; so is one of a hundred years.
    known = is_number and 0 <= age < 3.2e9  # type: ignore[operator]
    return RecordFacts(
        _words(told.get("content_id")),
        _words(told.get("state")),
        float(age) if known else None,  # type: ignore[arg-type]
    )


def _words(value: object, most: int = _MOST_ID) -> str | None:
    return one_line(value, most) if isinstance(value, str) and value else None
