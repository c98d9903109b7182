"""The environment for an srun of ours, so that no word of another job or step steers it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import slurm_io


def clean_environment(caller: Mapping[str, str]) -> dict[str, str]:
    """The caller's, without the words of another job or step that srun would obey, with the path
    this package was imported from, and without a hook for our own processes."""
    kept = {
        name: value
        for name, value in caller.items()
        if name == "SLURM_CONF" or not name.startswith(("SLURM_", "SRUN_"))
    }
    home = str(Path(slurm_io.__file__).parents[1])
    paths = [path for path in kept.get("PYTHONPATH", "").split(os.pathsep) if path]
    if "site-packages" not in home and home not in paths:
        paths.append(home)
    if paths:
        kept["PYTHONPATH"] = os.pathsep.join(paths)
    return {**kept, "SLURM_IO_HOOK": "0"}
