"""DLIO, the benchmark under MLPerf Storage, as a training job with a figure of its own: AU.

DLIO (the package dlio-benchmark 2.0.0) reads a generated dataset through torch's DataLoader and
sleeps where a GPU would compute. Its accelerator utilisation, of one pass of n steps::

    AU = sum(compute of steps 2..n) / (end of pass - start of pass - whole of step 1)

`compute` is the sleep asked for, not the one slept; `start` is before the loader is started and
`end` after the last step's sleep. So all that is not the asked-for sleep lowers AU: the waits for
batches, late wake-ups, DLIO's own logging. What it reports is the mean over passes. The report's
counterpart is 1 - (the shares of data wait, all causes): also over the time from the first batch
on, but the first batches of later passes are in it, and what is neither wait nor sleep counts as
compute. :func:`same_steps` leaves out what DLIO leaves out.

DLIO has no optimizer, so every batch counts as a step. resnet50 is written for TensorFlow and
tfrecord there; here it reads as many small JPEG files through torch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import polars as pl

from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.timeline import read_timeline
from slurm_io.store.reader import open_job
from tests.labs.slowfs_settings import SlowFsSettings

MODULES = ("dlio_benchmark", "mpi4py", "hydra", "dftracer", "h5py", "pandas", "PIL", "torch")
INSTALL = (
    "pip install torch==2.13.0 mpi4py mpich hydra-core h5py pandas Pillow psutil pydftracer==1.0.2 "
    "&& pip install --no-deps dlio-benchmark==2.0.0"
)
JOB = Path(__file__).with_name("dlio_job.py")
RUN_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Workload:
    """A small run in the likeness of one of DLIO's; `slow` keeps it waiting a third or more."""

    name: str
    config: str
    format: str
    files: int
    record_bytes: int
    spread_bytes: int
    batch: int
    readers: int
    compute_s: float
    epochs: int
    slow: SlowFsSettings

    @property
    def steps(self) -> int:
        """Steps of one pass."""
        return self.files // self.batch


WORKLOADS = (
    Workload(
        name="unet3d",
        config="unet3d_h100",
        format="npz",
        files=160,
        record_bytes=1_000_000,
        spread_bytes=250_000,
        batch=2,
        readers=2,
        compute_s=0.1,
        epochs=2,
        slow=SlowFsSettings(read_latency_s=0.02),
    ),
    Workload(
        name="resnet50",
        config="resnet50_h100",
        format="jpeg",
        files=640,
        record_bytes=114_660,
        spread_bytes=0,
        batch=8,
        readers=2,
        compute_s=0.1,
        epochs=2,
        slow=SlowFsSettings(read_latency_s=0.02),
    ),
)


@dataclass(frozen=True)
class Compared:
    """One run, as parts of 1. `au`, `waited` and `late` are DLIO's own: its stopwatch around the
    loader and what its steps took beyond wait and asked-for sleep, over the steps of AU.
    `report_busy` is 1 - the report's data wait, of its base; `same_busy` that of the steps both
    know whole. `storage` is the report's share that storage caused.
    """

    au: float
    waited: float
    late: float
    report_busy: float
    same_busy: float
    storage: float | None
    verdict: str
    steps: int


def missing(python: str) -> str | None:
    """Why DLIO does not run under this Python, with what to do; None when it does."""
    look = (
        "import importlib.util as util, sys\n"
        "print(*(name for name in sys.argv[1:] if util.find_spec(name) is None))"
    )
    try:
        done = subprocess.run(
            [python, "-c", look, *MODULES], capture_output=True, text=True, check=False
        )
    except OSError as error:
        return f"cannot run {python}: {error.strerror}; name a Python with: {INSTALL}"
    if done.returncode != 0:
        return f"{python} does not run: {done.stderr.strip()[-200:]}"
    absent = done.stdout.split()
    return f"{python} has no {', '.join(absent)}: {INSTALL}" if absent else None


def generate(python: str, workload: Workload, data: Path, room: Path) -> None:
    """Write the dataset below `data`."""
    arguments = ["++workload.workflow.generate_data=True", "++workload.workflow.train=False"]
    _run([*_command(python, workload, data, room), *arguments], room / "generate.log")


def train(python: str, workload: Workload, data: Path, room: Path) -> Compared:
    """One run under ``slurm-io run`` from `data`; `room` keeps store, DLIO's output and logs."""
    store = room / "store"
    profiled = [sys.executable, "-m", "slurm_io", "run", "-o", os.fspath(store), "--"]
    _run([*profiled, *_command(python, workload, data, room)], room / "run.log")
    return compare(store, room / "output")


def compare(store: Path, output: Path) -> Compared:
    """DLIO's figures from its output folder beside ours from the store."""
    report = json.loads((store / "report.json").read_text())
    summary = json.loads((output / "summary.json").read_text())
    passes = passes_of(json.loads((output / "0_output.json").read_text()))
    idle = report["idle"]
    causes = ("data_storage", "data_cpu", "data_pipeline", "data_unknown")
    return Compared(
        au=summary["metric"]["train_au_mean_percentage"] / 100,
        waited=mean(waited_share(one) for one in passes),
        late=mean(late_share(one) for one in passes),
        report_busy=1 - sum(idle[cause] for cause in causes),
        same_busy=same_steps(read_timeline(Tables(open_job(store))).rows),
        storage=idle["data_storage"],
        verdict=report["verdict"],
        steps=sum(len(one["load"]) for one in passes),
    )


def same_steps(rows: pl.DataFrame) -> float:
    """1 - waits / time, over each pass without its first and last step; the mean over passes.

    `rows`: of a timeline.
    """
    last = pl.col("start").max().over("proc", "loader", "epoch")
    whole = rows.filter(~pl.col("first") & (pl.col("start") < last))
    passes = whole.group_by("proc", "loader", "epoch").agg(
        pl.col("wait_s").sum(), ((pl.col("next_start") - pl.col("start")) / 1e9).sum().alias("s")
    )
    return 1 - float((passes["wait_s"] / passes["s"]).mean() or 0.0)  # type: ignore[arg-type]


def passes_of(output: dict[str, Any]) -> list[dict[str, list[float]]]:
    """Per pass the lists load, proc, compute (seconds); without checkpoints it is one block."""
    return [
        {name: output[epoch][name]["block1"] for name in ("load", "proc", "compute")}
        for epoch in sorted(output, key=str)
        if epoch.isdigit()
    ]


def waited_share(one: dict[str, list[float]]) -> float:
    """The part of a pass's time that waited for the loader, by DLIO's stopwatch."""
    return _share(one, one["load"])


def late_share(one: dict[str, list[float]]) -> float:
    """The part beyond wait and asked-for sleep: how much later than asked for it woke up."""
    parts = zip(one["proc"], one["load"], one["compute"], strict=True)
    return _share(one, [whole - wait - asked for whole, wait, asked in parts])


def _share(one: dict[str, list[float]], seconds: Sequence[float]) -> float:
    """`proc` is the whole of each step; the first step of a pass is not counted."""
    return sum(seconds[1:]) / sum(one["proc"][1:])


def _command(python: str, workload: Workload, data: Path, room: Path) -> list[str]:
    settings = {
        "framework": "pytorch",
        "workflow.checkpoint": False,
        "dataset.data_folder": data,
        "dataset.format": workload.format,
        "dataset.num_files_train": workload.files,
        "dataset.num_samples_per_file": 1,
        "dataset.record_length": workload.record_bytes,
        "dataset.record_length_stdev": workload.spread_bytes,
        "dataset.record_length_resize": workload.record_bytes,
        "reader.data_loader": "pytorch",
        "reader.batch_size": workload.batch,
        "reader.read_threads": workload.readers,
        "train.epochs": workload.epochs,
        "train.computation_time": workload.compute_s,
        "output.folder": room / "output",
    }
    overrides = [f"++workload.{name}={value}" for name, value in settings.items()]
    hydra = [f"workload={workload.config}", f"hydra.run.dir={room / 'hydra'}"]
    return [python, "-P", "-W", "ignore", os.fspath(JOB), *hydra, *overrides]


def _run(command: Sequence[str], log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with log.open("wb") as said:
        done = subprocess.run(
            command, stdout=said, stderr=said, stdin=subprocess.DEVNULL, env=environment,
            cwd=log.parent, timeout=RUN_TIMEOUT_S, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        end = log.read_text(errors="replace")[-2000:]
        raise RuntimeError(f"{' '.join(command)}\nexit {done.returncode}: {end}")
