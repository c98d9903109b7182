"""What must start fast or stay small imports nothing heavy: seen in a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"pyarrow", "polars", "click", "rich", "numpy", "torch"}


def modules_after(statement: str) -> set[str]:
    program = f"import sys, json; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("module", ["slurm_io.prolog.hook", "slurm_io.epilog.hook"])
def test_what_slurmd_runs_is_standard_library_only(module: str) -> None:
    loaded = modules_after(f"import {module}")
    assert not loaded & (HEAVY | {"psutil", "nanoarrow"})


@pytest.mark.parametrize("module", ["slurm_io.sampler.main", "slurm_io.sampler.launch"])
def test_resident_sampler_never_imports_pyarrow(module: str) -> None:
    assert not modules_after(f"import {module}") & HEAVY


def test_wrapper_does_not_pay_for_the_analysis() -> None:
    loaded = modules_after("import slurm_io.commands.run")
    assert not loaded & (HEAVY - {"click"})


def test_hook_imports_nothing_of_ours() -> None:
    loaded = {
        name for name in modules_after("import slurm_io.hook") if f"{name}.".startswith("slurm_io.")
    }
    assert {name for name in loaded if not name.startswith("slurm_io.hook")} == {"slurm_io"}
