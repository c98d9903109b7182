"""What checks import is loaded before the fork: a child of a healthy node finds all it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slurm_io.prolog.checks.base import CHECKS
from slurm_io.prolog.entry_scripts import package_folders
from slurm_io.spec import JobSpec

WISHES = JobSpec(dataset="c4", ckpt="/nonexistent/ckpt")
# Only where there is an array, a Lustre, trouble in the log, or a child that does not answer.
ONLY_SOMETIMES = (
    "slurm_io.filesystems.array_health", "slurm_io.filesystems.layout",
    "slurm_io.staging.verify.l3",
    "slurm_io.staging.verify.hashing", "slurm_io.prolog.healthy_now", "slurm_io.host.late_child",
    "slurm_io.filesystems.lustre", "slurm_io.prolog.newest_checkpoint",
)  # fmt: skip
PROGRAM = """
import importlib, sys
sys.path += sys.argv[1].split(":")
import slurm_io.prolog.node_checks
from slurm_io.config import load
from slurm_io.prolog.checks.base import CHECKS, CheckContext
from slurm_io.spec import JobSpec
check = CHECKS.get(sys.argv[3])
spec = JobSpec(dataset="c4", ckpt="/nonexistent/ckpt")
config = load(sys.argv[2])
own = config.check[sys.argv[3]].own if sys.argv[3] in config.check else {}
context = CheckContext("n1", config, spec, 5.0, "games", 5, 60, job="7", own=own)
for module in check.modules(spec):
    importlib.import_module(module)
before = set(sys.modules)
print(*{each.answer for each in check.run(context)})
print(*(name for name in set(sys.modules) - before if name.startswith("slurm_io")))
"""
CONFIG = """
spool_dir = "{root}/spool"
state_dir = "{root}/state"
[check.kernel_log]
source = "{root}/quiet.log"
[dataset.c4]
local = "{root}/c4"
manifest = "{root}/c4.jsonl"
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with one small dataset, verified on this node where it can be."""
    root = tmp_path_factory.mktemp("site")
    for number in range(4):
        path = root / "c4" / f"{number}.bin"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"%d" % number)
    (root / "quiet.log").touch()
    config = root / "config.toml"
    config.write_text(CONFIG.format(root=root))
    tool = [sys.executable, "-m", "slurm_io", "dataset"]
    manifest = ["manifest", "build", str(root / "c4"), "-o", str(root / "c4.jsonl")]
    record = ["verify", "c4", "--config", str(config), "--level", "4", "--record"]
    for command in (manifest, record):
        subprocess.run([*tool, *command], check=False, capture_output=True)
    return config


@pytest.mark.parametrize("name", sorted(CHECKS.discover()))
def test_a_child_imports_nothing_that_could_have_been_loaded_before(
    name: str, config: Path
) -> None:
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, package_folders(), str(config), name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    answers, new = done.stdout.split("\n")[:2]
    assert "FAIL" not in answers
    assert not [each for each in new.split() if not each.startswith(ONLY_SOMETIMES)]


def test_needs_are_modules_that_exist() -> None:
    needed = {module for check in CHECKS for module in check.modules(WISHES)}
    program = (
        f"import sys; sys.path += {package_folders().split(':')!r}; import {', '.join(needed)}"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)
