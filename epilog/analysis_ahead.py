"""Load the analysis while we are still root; the forked child that became the user runs it.

A site's Python may lie where users cannot read (root's home, a closed /opt): the user then could
not start an interpreter, and could not import a module either. So nothing is left to import.
"""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slurm_io.config import Config

MAX_THREADS = "2"  # the node belongs to the next job already
_NO_PART_OF_A_REPORT = ("slurm_io.analysis.compare.", "slurm_io.analysis.reproduce.")


def load(site: Config) -> Callable[[Path], dict[str, Any]]:
    """``slurm_io.analysis.api.write_reports`` as the site has it, all modules imported.

    polars and pyarrow start their threads at first use, which is in the child: forking is safe.
    """
    os.environ["POLARS_MAX_THREADS"] = MAX_THREADS
    package = importlib.import_module("slurm_io.analysis")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.startswith(_NO_PART_OF_A_REPORT):  # some are scripts, run elsewhere
            importlib.import_module(module.name)
    from slurm_io.analysis.api import write_reports
    from slurm_io.analysis.thresholds import of_config

    return functools.partial(write_reports, thresholds=of_config(site))
