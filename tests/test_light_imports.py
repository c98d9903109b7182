"""What must start fast or stay small imports nothing heavy: seen in a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from slurm_io.prolog.checks.base import CHECKS
from slurm_io.prolog.entry_scripts import package_folders
from slurm_io.spec import JobSpec

HEAVY = {"pyarrow", "polars", "click", "rich", "numpy", "torch"}


def modules_after(statement: str) -> set[str]:
    program = f"import sys, json; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("module", ["slurm_io.prolog.hook", "slurm_io.epilog.hook"])
def test_what_slurmd_runs_is_standard_library_only(module: str) -> None:
    loaded = modules_after(f"import {module}")
    assert not loaded & (HEAVY | {"psutil", "nanoarrow"})


# What cost a prolog most before it went: each of these takes 2 to 8 ms and none is needed.
KEPT_OUT_OF_PROLOGS = HEAVY | {
    "psutil", "nanoarrow", "dataclasses", "inspect", "ast", "pathlib", "urllib.parse", "pkgutil",
    "subprocess", "hashlib", "logging", "threading", "tempfile", "argparse", "datetime", "tomllib",
}  # fmt: skip
START = "import slurm_io.prolog.hook, slurm_io.prolog.node_checks as n"
ALL_CHECKS = f"{START}; checks = n.CHECKS.discover()"


def modules_in_a_prolog(statement: str) -> set[str]:
    """As prolog.sh starts it: without site, whose files of other packages may import anything."""
    program = f"import sys; sys.path += sys.argv[1].split(':'); {statement}; print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", program, package_folders()]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize("spec", [JobSpec(), JobSpec(dataset="c4", ckpt="/c")])
def test_a_prolog_loads_nothing_dear_for_any_check(spec: JobSpec) -> None:
    needed = {name for check in CHECKS for name in check.modules(spec)}
    loaded = modules_in_a_prolog(f"{ALL_CHECKS}; import {', '.join(sorted(needed))}")
    assert needed <= loaded
    assert not loaded & KEPT_OUT_OF_PROLOGS


def test_a_site_without_checks_does_not_load_them() -> None:
    loaded = modules_in_a_prolog("import slurm_io.prolog.hook")
    assert not {name for name in loaded if name.startswith("slurm_io.prolog.check")} - {
        "slurm_io.prolog.checks_file", "slurm_io.prolog.check_answers", "slurm_io.prolog.checks",
        "slurm_io.prolog.check_plan", "slurm_io.prolog.checks.base", "slurm_io.prolog.check_child",
    }  # fmt: skip


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
