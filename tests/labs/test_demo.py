"""`make demo` prints a report whose verdict is storage, without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.labs import demo
from tests.labs.slowfs import REPOSITORY, fuse_missing


def test_the_job_runs_without_a_profiler(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    command = [sys.executable, str(demo.JOB), str(tmp_path), "50"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("step 50/50")


def test_without_fuse_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "fuse_missing", lambda: "no /dev/fuse")
    assert demo.main([]) == demo.CANNOT
    assert capsys.readouterr().err == (
        "the demo needs FUSE for its slow file system: no /dev/fuse\n"
    )


@pytest.mark.grid
@pytest.mark.fuse
@pytest.mark.skipif(fuse_missing() is not None, reason=str(fuse_missing()))
def test_the_demo_blames_storage(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.labs.demo", "--keep", str(tmp_path / "kept")]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=True
    )
    assert "STORAGE" in done.stdout.upper()
    report = subprocess.run(
        [*demo.SLURM_IO, "report", str(tmp_path / "kept" / "store"), "-f", "json"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert json.loads(report.stdout)["verdict"] == "storage"
