"""Hugging Face's Trainer and Accelerate: ``checkpoint-<step>`` with one file for each thing.

Nothing marks the end of a save: model, optimizer, scheduler, random states and
``trainer_state.json`` come one after the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from slurm_io.staging.checkpoints.file_checks import judge_files
from slurm_io.staging.checkpoints.formats.base import FORMATS
from slurm_io.staging.checkpoints.found import Found
from slurm_io.staging.checkpoints.indexes import judge_indexes
from slurm_io.staging.checkpoints.model import Judged, Problem, State
from slurm_io.staging.checkpoints.nested_parts import has_parts_below, judge_below, merged

_STATE = "trainer_state.json"
_FOLDER = re.compile(r"(?:tmp-)?checkpoint[-_]\d+")
_RANDOM = re.compile(r"(?:rng_state|random_states)_(\d+)\.(?:pth|pkl)")
_TRAINER = ("training_args.bin", "optimizer.pt", "optimizer.bin", "scheduler.pt", "rng_state.pth")
_MODEL_SUFFIXES = (".safetensors", "pytorch_model.bin", "adapter_model.bin")
_MOST_JSON_BYTES = 16 * 2**20
_MOST_RANKS = 100_000


@FORMATS.register("huggingface")
class HuggingFace:
    """Folders of a Trainer, or of Accelerate's ``save_state``."""

    name = "huggingface"
    order = 30

    def recognises(self, found: Found) -> bool:
        """By ``trainer_state.json``, else by the folder's name and a file of the Trainer's."""
        names = found.top() if found.is_folder else []
        has_parts = any(name in _TRAINER or _RANDOM.fullmatch(name) for name in names)
        return _STATE in names or (bool(_FOLDER.fullmatch(found.name)) and has_parts)

    def judge(self, found: Found) -> Judged:
        """Every file whole, every shard of an index there, random states of all ranks."""
        said = merged(judge_files(found, found.files), judge_below(found))
        shards, unknown = judge_indexes(found)
        problems = [*_bad_state(found), *shards, *said.problems]
        missing = [*_missing(found)]
        if _is_sharded(found) and not has_parts_below(found):
            unknown.append("the model lies in a folder of its own, which was not looked at")
        notes = (*unknown, *said.notes)
        problems += missing
        if said.state == "broken" or len(problems) > len(missing) + len(said.problems):
            return Judged("broken", tuple(problems), notes)
        if problems:
            return Judged("unfinished", tuple(problems), notes)
        state: State = "unknown" if unknown or said.state == "unknown" else "whole"
        return Judged(state, (), notes)


def _bad_state(found: Found) -> Iterator[Problem]:
    if _STATE not in found.files or found.files[_STATE].size_bytes > _MOST_JSON_BYTES:
        return
    try:
        told = json.loads(found.read(_STATE, _MOST_JSON_BYTES))
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        yield Problem(_STATE, "no JSON object: cut short or damaged")


def _missing(found: Found) -> Iterator[Problem]:
    names = found.top()
    by_trainer = any(name in _TRAINER for name in names)
    if by_trainer and "training_args.bin" in names and _STATE not in names:
        yield Problem(_STATE, "not there: the Trainer writes it near the end")
    ranks = {int(hit[1]) for hit in map(_RANDOM.fullmatch, names) if hit}
    top = max(ranks, default=-1)
    if len(ranks) != top + 1 and top < _MOST_RANKS:
        gone = [rank for rank in range(top + 1) if rank not in ranks]
        yield Problem("rng_state_*.pth", f"{len(gone)} of {top + 1} missing, such as {gone[0]}")
    if not any(name.endswith(_MODEL_SUFFIXES) for name in found.files) and not _is_sharded(found):
        yield Problem("model", "no file of the model is there")


def _is_sharded(found: Found) -> bool:
    """A model in a folder of its own (FSDP, DeepSpeed)."""
    return any("/" in name for name in found.files)
