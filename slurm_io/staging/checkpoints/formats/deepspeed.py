"""DeepSpeed: a folder of one model file a model-parallel rank and one optimizer file a rank.

``latest`` beside the folder is written before the closing barrier: it may name a folder whose files
are not all there (:mod:`slurm_io.staging.checkpoints.pointers`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from slurm_io.staging.checkpoints.file_checks import judge_files
from slurm_io.staging.checkpoints.formats.base import FORMATS
from slurm_io.staging.checkpoints.found import Found
from slurm_io.staging.checkpoints.model import Judged, Problem, State

_MODEL = re.compile(r"mp_rank_(\d+)_model_states\.pt")
_OPTIMIZER = re.compile(r"(?:bf16_|fp16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt")
_PARAMETERS = re.compile(r"zero_pp_rank_(\d+)_mp_rank_(\d+)_model_states\.pt")
_LAYER = re.compile(r"layer_\d+-model_(\d+)-model_states\.pt")
_MOST_RANKS = 100_000
_EVEN = 0.05  # optimizer files of all ranks are equally large up to padding


@FORMATS.register("deepspeed")
class DeepSpeed:
    """Tag folders such as ``global_step500``."""

    name = "deepspeed"
    order = 20

    def recognises(self, found: Found) -> bool:
        """By the names of the files."""
        kinds = (_MODEL, _OPTIMIZER, _PARAMETERS, _LAYER)
        return found.is_folder and any(
            kind.fullmatch(name) for name in found.top() for kind in kinds
        )

    def judge(self, found: Found) -> Judged:
        """Numbers without gaps, the same for each model-parallel rank; every file whole."""
        said = judge_files(found, found.files)
        missing = [*_gaps(found)]
        if not missing:
            return Judged(said.state, said.problems, (*said.notes, *_uneven(found)))
        state: State = "broken" if said.problems else "unfinished"
        return Judged(state, (*missing, *said.problems), said.notes)


def _gaps(found: Found) -> Iterator[Problem]:
    names = found.top()
    models = {int(hit[1]) for hit in map(_MODEL.fullmatch, names) if hit}
    if any(_MODEL.fullmatch(name) for name in names):
        yield from _holes("mp_rank_*_model_states.pt", models)
    for kind, text in ((_OPTIMIZER, "optim_states.pt"), (_PARAMETERS, "model_states.pt")):
        hits = [hit for hit in map(kind.fullmatch, names) if hit]
        if not hits:
            continue
        ranks = {int(hit[1]) for hit in hits}
        for other in sorted({int(hit[2]) for hit in hits}):
            mine = {int(hit[1]) for hit in hits if int(hit[2]) == other}
            label = f"zero_pp_rank_*_mp_rank_{other:02d}_{text}"
            yield from _holes(label, mine, max(ranks))
    if models and not any(_OPTIMIZER.fullmatch(name) for name in names) and _wants_zero(names):
        yield Problem("*_optim_states.pt", "missing: parameters of ZeRO are there")


def _holes(label: str, numbers: set[int], last: int | None = None) -> Iterator[Problem]:
    top = max(numbers) if last is None else last
    if top >= _MOST_RANKS:
        yield Problem(label, f"a rank {top} is named")
        return
    gone = [number for number in range(top + 1) if number not in numbers]
    if gone:
        named = ", ".join(map(str, gone[:8])) + (", …" if len(gone) > 8 else "")
        yield Problem(label, f"{len(gone)} of {top + 1} missing: {named}")


def _wants_zero(names: list[str]) -> bool:
    return any(_PARAMETERS.fullmatch(name) for name in names)


def _uneven(found: Found) -> Iterator[str]:
    sizes = {
        name: one.size_bytes for name, one in found.files.items() if _OPTIMIZER.fullmatch(name)
    }  # fmt: skip
    if len(sizes) < 2:
        return
    middle = sorted(sizes.values())[len(sizes) // 2]
    odd = [name for name, size in sizes.items() if abs(size - middle) > _EVEN * middle]
    if odd:
        yield f"{len(odd)} optimizer files differ in size from the others, such as {odd[0]}"
