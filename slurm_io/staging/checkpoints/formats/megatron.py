"""Megatron: ``iter_<7 digits>`` (or ``release``), distributed or with one folder a rank.

Distributed (torch_dist): ``common.pt``, ``metadata.json`` and what :mod:`.dcp` has. Of ranks
(legacy): ``mp_rank_<tensor>[_<pipeline>[_<expert>]]`` with ``model_optim_rng.pt`` in each. The file
``latest_checkpointed_iteration.txt`` beside the folders names the newest
(:mod:`slurm_io.staging.checkpoints.pointers`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from slurm_io.staging.checkpoints.dcp_parts import is_distributed, judge_parts
from slurm_io.staging.checkpoints.file_checks import judge_files
from slurm_io.staging.checkpoints.formats.base import FORMATS
from slurm_io.staging.checkpoints.found import Found
from slurm_io.staging.checkpoints.model import Judged, Problem, State

_ITERATION = re.compile(r"iter_\d{7,}|release")
_RANK_FILE = re.compile(r"(mp_rank_\d{2,}(?:_\d{3,}){0,2})/(.+)")
_COMMON, _KIND = "common.pt", "metadata.json"
_MODEL = "model_optim_rng.pt"
_MOST_JSON_BYTES = 2**20
_MOST_RANKS = 100_000


@FORMATS.register("megatron")
class Megatron:
    """Iteration folders of Megatron-LM and what is built on it."""

    name = "megatron"
    order = 10

    def recognises(self, found: Found) -> bool:
        """By the folder's name and what lies in it."""
        if not found.is_folder or not _ITERATION.fullmatch(found.name):
            return False
        has_ranks = any(_RANK_FILE.fullmatch(name) for name in found.files)
        return has_ranks or _COMMON in found.files or is_distributed(found)

    def judge(self, found: Found) -> Judged:
        """As its kind has it."""
        if any(_RANK_FILE.fullmatch(name) for name in found.files):
            return _of_ranks(found)
        return _distributed(found)


def _distributed(found: Found) -> Judged:
    parts = judge_parts(found)
    common = judge_files(found, [_COMMON] if _COMMON in found.files else [])
    problems = [*parts.problems, *common.problems, *_bad_json(found)]
    if parts.state == "unfinished" or _COMMON not in found.files:
        if _COMMON not in found.files:
            problems.append(Problem(_COMMON, "not there"))
        return Judged("broken" if common.problems else "unfinished", tuple(problems), parts.notes)
    if problems:
        return Judged("broken", tuple(problems), (*parts.notes, *common.notes))
    state: State = "unknown" if "unknown" in (parts.state, common.state) else "whole"
    return Judged(state, (), (*parts.notes, *common.notes))


def _bad_json(found: Found) -> Iterator[Problem]:
    """metadata.json is not there in all versions; where it is, it can be read."""
    if _KIND not in found.files:
        return
    try:
        told = json.loads(found.read(_KIND, _MOST_JSON_BYTES))
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        yield Problem(_KIND, "no JSON object: cut short or damaged")


def _of_ranks(found: Found) -> Judged:
    said = judge_files(found, found.files)
    folders: dict[str, set[str]] = {}
    for hit in filter(None, map(_RANK_FILE.fullmatch, found.files)):
        folders.setdefault(hit[1], set()).add(hit[2])
    missing = [
        Problem(f"{folder}/{_MODEL}", "missing")
        for folder, names in sorted(folders.items())
        if _MODEL not in names
    ]
    missing += _absent(set(folders))
    if not missing:
        return said
    return Judged(
        "broken" if said.problems else "unfinished", (*missing, *said.problems), said.notes
    )


def _absent(folders: set[str]) -> list[Problem]:
    """Ranks count from 0 in each place of the name, and each pair of places has its folder."""
    places = [
        tuple(int(number) for number in name.removeprefix("mp_rank_").split("_"))
        for name in sorted(folders)
    ]
    if len({len(place) for place in places}) != 1:
        return [Problem("mp_rank_*", "folders of two layouts lie side by side")]
    wanted = 1
    for column in zip(*places, strict=True):
        wanted *= max(column) + 1
    if wanted > _MOST_RANKS or len(folders) >= wanted:
        return []
    text = f"{len(folders)} folders of ranks, {wanted} are needed by their numbers"
    return [Problem("mp_rank_*", text)]
