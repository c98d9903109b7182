"""What the resident sampler imports stays light."""

from __future__ import annotations

import subprocess
import sys

import pytest

_HEAVY = ("pyarrow", "polars", "numpy", "click", "rich", "pandas")
_CODE = "import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"


@pytest.mark.parametrize("module", ["streams", "spool", "files", "run_as", "markers", "deliver"])
def test_no_heavy_library(module: str) -> None:
    code = _CODE.format(module=f"slurm_io.store.{module}", heavy=_HEAVY)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
