"""The lines README.md tells users to write: they run in an attached job and in any other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ATTACH = REPOSITORY / "slurm_io" / "hook" / "attach"


@pytest.mark.parametrize("attached", [True, False])
def test_a_wrapped_loader_runs_with_and_without_us(attached: bool, tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL)
    assert "slurm_io_hook" in block
    text = f"loader = [1, 2, 3]\n{block.replace('...', 'print(batch)')}"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if attached:
        environment |= {"PYTHONPATH": str(ATTACH), "SLURM_IO_RING_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("1\n2\n3\n", "")
    assert bool(list(tmp_path.glob("ring-*"))) == attached
