"""Distributed checkpoints in folders below a save: ``step-100/model``, ``step-100/optim``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from slurm_io.staging.checkpoints.dcp_parts import is_distributed, judge_parts
from slurm_io.staging.checkpoints.found import Found
from slurm_io.staging.checkpoints.model import Judged, Problem


def has_parts_below(found: Found) -> bool:
    """Whether any folder below holds one, or what one left."""
    return next(_below(found), None) is not None


def judge_below(found: Found) -> Judged:
    """All of them together, problems by their name in the save. Raises OSError."""
    problems: list[Problem] = []
    notes: list[str] = []
    states = {"whole"}
    for folder, part in _below(found):
        said = judge_parts(part)
        states.add(said.state)
        problems += [Problem(f"{folder}/{one.file}", one.text) for one in said.problems]
        notes += [f"{folder}: {note}" for note in said.notes]
    if "broken" in states:
        return Judged("broken", tuple(problems), tuple(notes))
    if "unfinished" in states:
        return Judged("unfinished", tuple(problems), tuple(notes))
    return Judged("unknown" if "unknown" in states else "whole", (), tuple(notes))


def merged(first: Judged, second: Judged) -> Judged:
    """Two answers about parts of one save: the worse state, all problems and notes."""
    order = ("whole", "unknown", "unfinished", "broken")
    worse = max(first.state, second.state, key=order.index)
    problems = (*first.problems, *second.problems)
    return Judged(worse, problems, (*first.notes, *second.notes))


def _below(found: Found) -> Iterator[tuple[str, Found]]:
    folders = sorted({name.rpartition("/")[0] for name in found.files if "/" in name})
    for folder in folders:
        files = {
            name[len(folder) + 1 :]: one
            for name, one in found.files.items()
            if name.startswith(folder + "/")
        }
        part = replace(found, files=files, others={})
        if is_distributed(part):
            yield folder, part
