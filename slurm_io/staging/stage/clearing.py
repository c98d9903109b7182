"""What is removed from a dataset's folder: old debris, and on demand what this version lacks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from slurm_io.staging.beneath import Folder
from slurm_io.staging.manifest.paths import decode_path, printable
from slurm_io.staging.stage.folders import remove


@dataclass(frozen=True)
class Cleared:
    """Paths that are gone, bytes given back, and what could not be removed."""

    removed: tuple[str, ...] = ()
    freed_bytes: int = 0
    problems: tuple[str, ...] = ()


def clear(tree: Folder, raw_paths: Iterable[bytes]) -> Cleared:
    """Remove entries below an open folder; no link is followed. Raises nothing."""
    removed, freed, problems = [], 0, []
    for raw in raw_paths:
        try:
            freed += remove(tree, raw)
            removed.append(decode_path(raw))
        except OSError as error:
            why = error.strerror or os.strerror(error.errno or 0)
            problems.append(f"{printable(decode_path(raw))} could not be removed: {why}")
    return Cleared(tuple(removed), freed, tuple(problems))
