"""Our data wait beside DLIO's accelerator utilisation (AU), of the same runs.

    python bench/dlio.py --dlio-python PATH [--only unet3d] [--keep DIR]

PATH is a Python with DLIO in it; without one, a line says how to make it. Small runs in the
likeness of unet3d and resnet50, each from slow storage (slowfs) and from a plain disk, under
`slurm-io run`. What AU is and leaves out: see tests/labs/dlio.py. Printed, in % of time:

- of DLIO: AU; 100 - AU; of that, what its sleeps took longer than asked for, and its own stopwatch
  around the loader;
- of ours: the data wait of the report, of its own base; the data wait over the steps that AU
  counts, without each pass's last; both less 100 - AU (points), the latter with what the sleeps
  took longer set aside too; the part of the data wait due to storage.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.labs.dlio import WORKLOADS, Compared, Workload, generate, missing, train
from tests.labs.slowfs import SlowFs, fuse_missing

POINTS = 2.0
COLUMNS = (
    "AU", "100-AU", "its late", "its wait",
    "ours", "-(100-AU)", "same steps", "-(100-AU)", "late aside", "storage",
)  # fmt: skip


def main() -> int:
    """Run and print; exit code 0 also when DLIO or FUSE is not here."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dlio-python", default=sys.executable)
    parser.add_argument("--only", choices=[workload.name for workload in WORKLOADS])
    parser.add_argument("--keep", type=Path, help="folder for what the runs leave")
    options = parser.parse_args()
    if why := missing(options.dlio_python) or fuse_missing():
        print(f"not measured: {why}")
        return 0
    chosen = [one for one in WORKLOADS if options.only in (None, one.name)]
    kept = nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory()
    print(f"{'% of time':18}" + "".join(f"{name:>11}" for name in COLUMNS))
    with kept as folder:
        for workload in chosen:
            measure(options.dlio_python, workload, Path(folder) / workload.name)
    print(f"wanted: at most {POINTS:g} points either way, late sleeps set aside")
    return 0


def measure(python: str, workload: Workload, room: Path) -> None:
    """Slow storage, then the disk."""
    data = room / "data"
    data.mkdir(parents=True)
    generate(python, workload, data, room / "generate")
    with SlowFs(data, room / "mount", workload.slow) as slow:
        print_line(
            f"{workload.name}, slow", train(python, workload, slow.mountpoint, room / "slow")
        )
    print_line(f"{workload.name}, disk", train(python, workload, data, room / "fast"))


def print_line(name: str, seen: Compared) -> None:
    """One row of the table."""
    lost = 1 - seen.au
    ours, same = 1 - seen.report_busy, 1 - seen.same_busy
    its = (seen.au, lost, seen.late, seen.waited)
    aside = same - lost + seen.late
    shares = (*its, ours, ours - lost, same, same - lost, aside, seen.storage)
    row = "".join(f"{'-' if one is None else f'{100 * one:.1f}':>11}" for one in shares)
    print(f"{name:18}{row}  {seen.verdict}, {seen.steps} steps", flush=True)


if __name__ == "__main__":
    sys.exit(main())
