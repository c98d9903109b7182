"""CPU time of one analysis: 24 h of 1 Hz rows of 8 ranks with 8 workers each, on one node.

    python bench/report_cost.py [--hours H] [--ranks N] [--workers N] [--gpu] [--mounts N]

Budget (DESIGN 15): 2 s of CPU for 24 h x 8 ranks. The store is written as Parquet first and read
back by the real reader; `read` is that alone, `analyse` everything from open to report, `peak` the
most memory of a process that does nothing else. One step a second; waits and process rows for every
rank and worker. With --gpu each wait was measured on the GPU (`gpu_waits`); with --mounts there are
three rows a second for each mount.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from slurm_io.analysis.api import analyse
from slurm_io.store.reader import open_job
from slurm_io.store.schema import TABLES, WAIT_CLASSES

NS = 1_000_000_000
BUDGET_S = 2.0
START_NS = 1_760_000_000 * NS
TYPES = {
    "int64": pl.Int64, "int32": pl.Int32, "float64": pl.Float64, "float32": pl.Float32,
    "string": pl.String, "bool": pl.Boolean,
}  # fmt: skip


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--gpu", action="store_true", help="waits measured on the GPU")
    parser.add_argument("--mounts", type=int, default=0, help="NFS mounts with rows of their own")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        seconds = int(options.hours * 3600)
        rows = write_store(store, seconds, options.ranks, options.workers, options.gpu)
        write_mounts(store, seconds, options.mounts)
        size_mb = sum(path.stat().st_size for path in store.rglob("*.parquet")) / 1e6
        read_s = cpu_s(lambda: read_all(store))
        analyse_s = cpu_s(lambda: analyse(store))
        verdict = analyse(store)["verdict"]
        peak_mib = peak_of_analysis(store)
    print(f"{rows} rows, {size_mb:.1f} MB of Parquet, verdict {verdict}")
    print(f"read     {read_s:6.2f} s CPU")
    print(f"peak     {peak_mib:6.0f} MiB")
    told = "kept" if analyse_s <= BUDGET_S else "MISSED"
    print(f"analyse  {analyse_s:6.2f} s CPU (budget {BUDGET_S:g} for 24 h of 8 ranks: {told})")


def peak_of_analysis(store: Path) -> float:
    """MiB of a process that analyses the store; the one that wrote it held all its rows."""
    # VmHWM: ru_maxrss would remember this process, from which the child was made.
    code = (
        "import sys; from pathlib import Path; from slurm_io.analysis.api import analyse; "
        "analyse(Path(sys.argv[1])); print(Path('/proc/self/status').read_text())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, store], capture_output=True, text=True, check=True
    )
    [line] = [one for one in done.stdout.splitlines() if one.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def cpu_s(call: Callable[[], Any]) -> float:
    """CPU seconds of all threads of one call."""
    before = time.process_time()
    call()
    return time.process_time() - before


def read_all(store: Path) -> None:
    """Every table once."""
    job = open_job(store)
    for name in TABLES:
        job.table(name)


def write_store(store: Path, seconds: int, ranks: int, workers: int, gpu: bool = False) -> int:
    """A day's store; the number of rows."""
    node = store / "node=n1"
    node.mkdir(parents=True)
    job = {"cluster": "lab", "job": "1", "restart": 0, "user": "ada", "uid": 1000, "nodes": ["n1"]}
    (store / "job.json").write_text(json.dumps({"schema": 1, "job": job, "nodes_expected": ["n1"]}))
    meta = {"schema": 1, "node": "n1", "clean_end": True, "start_ts_ns": START_NS}
    (node / "meta.json").write_text(json.dumps(meta))
    tables = {
        "steps": steps(seconds, ranks),
        "waits": waits(seconds, ranks, workers),
        "process": processes(seconds, ranks, workers),
        "node": ticks(seconds),
    }
    if gpu:
        idle = (pl.col("data_wait_ns") // 2).alias("gpu_idle_ns")
        tables["steps"] = tables["steps"].with_columns(pl.lit(True).alias("cuda"))
        tables["gpu_waits"] = tables["steps"].with_columns(idle)
    for name, frame in tables.items():
        complete(name, frame).sort("ts_ns").write_parquet(
            node / f"{name}-0000.parquet", compression="zstd", row_group_size=100_000
        )
    return sum(frame.height for frame in tables.values())


def write_mounts(store: Path, seconds: int, mounts: int) -> None:
    """Rows of `fsclient`: read, write and metadata of NFS mounts that are as fast as ever."""
    if not mounts:
        return
    kinds = pl.DataFrame({"op_class": ["read", "write", "meta"]})
    names = pl.DataFrame({"mount": [f"/mount{number}" for number in range(mounts)]})
    ms = pl.col("noise") / 10**8
    rows = ticks(seconds).join(names, how="cross").join(kinds, how="cross").with_columns(
        pl.lit("nfs4").alias("fstype"), pl.lit("mountstats").alias("source"), ms.alias("rtt_ms"),
        ms.alias("exe_ms"), pl.lit(100).alias("ops"), pl.lit(0).alias("inflight"),
    )  # fmt: skip
    complete("fsclient", rows).sort("ts_ns").write_parquet(
        store / "node=n1" / "fsclient-0000.parquet", compression="zstd", row_group_size=100_000
    )


def complete(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """All columns of the schema, in order."""
    return frame.select(
        (pl.col(column.name) if column.name in frame.columns else pl.lit(None)).cast(
            TYPES[column.type]
        ).alias(column.name)
        for column in TABLES[name].columns
    )  # fmt: skip


def ticks(seconds: int) -> pl.DataFrame:
    """One row a second."""
    mono = (pl.int_range(seconds, eager=True) + 101) * NS
    return pl.DataFrame({"ts_ns": mono + START_NS, "mono_ns": mono}).with_columns(
        pl.lit(NS).alias("interval_ns"), (pl.col("mono_ns") // NS % 97 * 10**6).alias("noise")
    )


def steps(seconds: int, ranks: int) -> pl.DataFrame:
    """One step a second, a tenth of it waiting."""
    rank = pl.DataFrame({"rank": list(range(ranks))})
    rows = ticks(seconds).with_row_index("batch").join(rank, how="cross")
    return rows.with_columns(
        (pl.col("rank") + 1000).alias("pid"),
        pl.lit(0).alias("loader"),
        pl.lit(0).alias("epoch"),
        pl.col("batch").alias("step"),
        (pl.col("noise") + 50 * 10**6).alias("data_wait_ns"),
        (pl.col("batch") == 0).alias("first"),
        pl.lit(True).alias("workers"),
        pl.lit(False).alias("cuda"),
    )


def waits(seconds: int, ranks: int, workers: int) -> pl.DataFrame:
    """Rank and worker rows of the two phases, a storage row where data was awaited."""
    kinds = pl.DataFrame(
        {
            "role": ["rank", "worker", "worker", "rank", "worker"],
            "phase": ["data_wait", "data_wait", "data_wait", "step", "step"],
            "loader": [0, 0, 0, None, None],
            "mount": [None, None, "/scratch", None, None],
            "n_pipe": [1, workers - 1, 0, 0, workers * 9],
            "n_storage": [0, 0, 1, 0, 0],
            "passes": [1, 1, 1, 9, 9],
        }
    )
    rank = pl.DataFrame({"rank": list(range(ranks))})
    rows = ticks(seconds).join(rank, how="cross").join(kinds, how="cross")
    others = [f"n_{name}" for name in WAIT_CLASSES if f"n_{name}" not in kinds.columns]
    return rows.with_columns(
        *(pl.lit(0).alias(name) for name in (*others, "n_fault")),
        pl.lit(1).alias("processes"),
        pl.when(pl.col("mount").is_not_null()).then(pl.lit("/scratch/data/a.tar")).alias("path"),
    )


def processes(seconds: int, ranks: int, workers: int) -> pl.DataFrame:
    """A row a second for every rank and worker."""
    everybody = pl.DataFrame(
        [
            {"rank": rank, "pid": 1000 + rank if not number else 5000 + rank * workers + number,
             "role": "worker" if number else "rank"}
            for rank in range(ranks)
            for number in range(workers + 1)
        ]
    )  # fmt: skip
    rows = ticks(seconds).join(everybody, how="cross")
    return rows.with_columns(
        pl.lit(1).alias("starttime"),
        pl.lit("pt_data_worker").alias("comm"),
        (pl.col("noise") + pl.col("pid")).alias("cpu_ns"),
        pl.lit(0).alias("majflt"),
        (pl.col("noise") % 13).alias("syscr"),
        (pl.col("noise") * 3).alias("rchar_bytes"),
        (pl.col("noise") * 2).alias("read_bytes"),
    )


if __name__ == "__main__":
    main()
