"""`make demo`: a training loop on slow storage, profiled; prints the report a user would get.

    python -m tests.labs.demo [--steps N] [--keep DIR]

Needs FUSE; neither Slurm nor torch nor a GPU. The storage is a folder behind slowfs, 20 ms a read.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.labs.slowfs import SlowFs, SlowFsError, fuse_missing
from tests.labs.slowfs_settings import SlowFsSettings
from tests.labs.train import make_dataset

JOB = Path(__file__).with_name("demo_job.py")
SLURM_IO = (sys.executable, "-m", "slurm_io")
FILES = 64
FILE_BYTES = 64 * 1024
STORAGE = SlowFsSettings(read_latency_s=0.02)
CANNOT = 3


def demo(folder: Path, steps: int) -> int:
    """Run the job in `folder` and print its report; returns the first exit code that is not 0."""
    make_dataset(folder / "files", FILES, FILE_BYTES)
    store = os.fspath(folder / "store")
    with SlowFs(folder / "files", folder / "dataset", STORAGE) as slow:
        job = [sys.executable, os.fspath(JOB), os.fspath(slow.mountpoint), str(steps)]
        print("$ slurm-io run -o store -- python demo_job.py dataset", steps, flush=True)
        # The report is asked for apart, as a user would.
        run = subprocess.run(
            [*SLURM_IO, "run", "--no-report", "-o", store, "--", *job], check=False
        )
    if run.returncode != 0:
        return run.returncode
    print("\n$ slurm-io report store", flush=True)
    return subprocess.run([*SLURM_IO, "report", store], check=False).returncode


def main(argv: list[str] | None = None) -> int:
    """Exit code 3 when the demo cannot run here; one line says why."""
    parser = argparse.ArgumentParser(prog="python -m tests.labs.demo")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--keep", type=Path, help="folder for the store; default: none is kept")
    options = parser.parse_args(argv)
    if missing := fuse_missing():
        print(f"the demo needs FUSE for its slow file system: {missing}", file=sys.stderr)
        return CANNOT
    try:
        if options.keep:
            return demo(options.keep, options.steps)
        with tempfile.TemporaryDirectory(prefix="slurm-io-demo-") as folder:
            code = demo(Path(folder), options.steps)
        print(f"\nThe store is gone; {sys.executable} -m tests.labs.demo --keep DIR keeps it.")
        return code
    except SlowFsError as error:
        print(error, file=sys.stderr)
        return CANNOT


if __name__ == "__main__":
    sys.exit(main())
