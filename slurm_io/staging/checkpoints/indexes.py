"""``*.index.json`` beside safetensors files: which shards a model has."""

from __future__ import annotations

import re

from slurm_io.errors import ManifestError
from slurm_io.staging.checkpoints.found import Found
from slurm_io.staging.checkpoints.model import Problem
from slurm_io.staging.checkpoints.names import shown
from slurm_io.staging.safetensors import parse_index

_INDEX = re.compile(r"[\w.-]+\.index\.json")
_MOST_BYTES = 16 * 2**20


def judge_indexes(found: Found) -> tuple[list[Problem], list[str]]:
    """Shards that an index names and the folder has not; indexes too large for a look. Raises
    OSError."""
    problems: list[Problem] = []
    unknown: list[str] = []
    for name in filter(_INDEX.fullmatch, found.top()):
        if found.files[name].size_bytes > _MOST_BYTES:
            unknown.append(f"{name}: too large for a look")
            continue
        try:
            weights, _ = parse_index(found.read(name, _MOST_BYTES), name)
        except ManifestError as error:
            problems.append(Problem(name, str(error)))
            continue
        gone = sorted({shard for shard in weights.values() if shard not in found.files})
        problems += [Problem(shown(shard), f"missing: {name} names it") for shard in gone]
    return problems, unknown
