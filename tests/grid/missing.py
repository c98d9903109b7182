"""Why a scenario cannot run on this machine."""

from __future__ import annotations

import os
import shutil

from slurm_io.collectors.stacks.program import find_py_spy
from tests.grid.model import Judged, Scenario
from tests.labs.block import block_lab_missing
from tests.labs.job_group import job_group_missing
from tests.labs.slowfs import fuse_missing


def why_not(scenario: Judged) -> str | None:
    """The first thing that is missing; None when it can run. A recorded one always can."""
    if not isinstance(scenario, Scenario):
        return None
    reasons = [
        fuse_missing() if scenario.needs_fuse else None,
        block_lab_missing() if scenario.disk else None,
        job_group_missing() if scenario.limits else None,
        "mounting a tmpfs needs root" if scenario.checkpoint_bytes and os.geteuid() else None,
        "taskset is not installed" if scenario.one_cpu and not shutil.which("taskset") else None,
        "py-spy is not installed" if _wants_stacks(scenario) and not _py_spy() else None,
    ]
    return next((reason for reason in reasons if reason), None)


def _wants_stacks(scenario: Scenario) -> bool:
    return scenario.stacks or not scenario.hook


def _py_spy() -> object:
    return find_py_spy(os.environ.get("PATH"))
