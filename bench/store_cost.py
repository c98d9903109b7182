"""What the store costs: CPU of a flush, bytes of a row, beside other ways to keep the same rows.

``python bench/store_cost.py [--minutes M]`` makes M minutes of rows at 1 Hz as a node with 8 ranks
and 64 workers would (random walks that keep the look of counters: equal clocks within a tick,
idle devices, all-null columns), writes them as the sampler does, seals them, and prints:

1. CPU time of one flush of each table (streams, two ticks' rows a flush),
2. bytes of a row as stream and as sealed Parquet; the budget is 100 bytes for each 40 columns,
3. the same rows as CSV and JSON lines, plain and under zstd,
4. sysstat's own binary file for a device row, when ``sar`` is there.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from slurm_io.store.reader import open_job
from slurm_io.store.schema import TABLES, Column, Table
from slurm_io.store.seal import seal_spool
from slurm_io.store.spool import SpoolWriter
from slurm_io.store.streams import Row

BUDGET_BYTES, BUDGET_COLUMNS = 100, 40
START_NS = 1_760_000_000_123_456_789
ROWS_A_TICK = {
    "block": 6, "fsclient": 6, "node": 1, "cgroup": 1, "process": 73, "waits": 24,
    "steps": 24, "gpu": 8, "capacity": 0,
}  # fmt: skip
NEVER_MEASURED = {
    "d_s", "dkB_s", "drqm_s", "d_await", "dareq_sz", "parent", "blkio_delay_ns", "retrans",
    "gpu_idle_ns", "batch_bytes", "padding_share", "sm_active_share", "xid", "ib_rx_bytes",
    "ib_tx_bytes", "mem_limit_bytes",
}  # fmt: skip
Cell = Callable[[int], object]


def cell_maker(table: Table, column: Column, key: int, rng: random.Random) -> Cell:
    """How one cell of the row with number `key` moves from tick to tick."""
    name = column.name
    if name in NEVER_MEASURED:
        return lambda tick: None
    if name in ("pid", "starttime", "rank", "gpu", "version", "loader"):
        return lambda tick: key + 1000
    if column.type == "string":
        values = [f"/lustre/data/{name}{key}"] if name in ("mount", "path") else [f"{name}{key}"]
        return lambda tick: values[0]
    if column.type == "bool":
        return lambda tick: False
    if name == "interval_ns":
        return lambda tick: 1_000_000_000 + rng.randrange(-60_000, 60_000)
    if column.type.startswith("float"):
        busy = rng.random() < 0.5
        return lambda tick: round(rng.gammavariate(2, 100), 3) if busy else 0.0
    if name.startswith("n_") or column.type == "int32":
        return lambda tick: rng.choice((0, 0, 0, 0, 1, 2, 8))
    if name.endswith("_ns"):
        return lambda tick: rng.randrange(0, 2_000_000_000)
    if name in ("rss_bytes", "mem_total_bytes", "mem_used_bytes", "mem_available_bytes"):
        return lambda tick: 4096 * (2_000_000 + tick // 7)
    return lambda tick: rng.choice((0, 0, 0, 4096 * rng.randrange(1000)))


def rows_of(table: Table, ticks: int, rng: random.Random) -> Iterator[list[Row]]:
    """The rows of each tick."""
    keys = range(ROWS_A_TICK[table.name])
    makers = [[cell_maker(table, c, k, rng) for c in table.columns[2:]] for k in keys]
    for tick in range(ticks):
        mono_ns = 5_000_000_000 + tick * 1_000_000_000 + rng.randrange(30_000)
        clocks = (START_NS + mono_ns, mono_ns)
        yield [(*clocks, *(make(tick) for make in row)) for row in makers]


def flush_cost_us(table: Table, folder: Path, rows: list[Row]) -> float:
    """CPU time of appending and flushing `rows`, best of five rounds of 200."""
    spool = SpoolWriter(folder, [table])
    best_s = float("inf")
    for _ in range(5):
        started_s = time.process_time()
        for _ in range(200):
            for row in rows:
                spool.append(table.name, row)
            spool.flush_all()
        best_s = min(best_s, (time.process_time() - started_s) / 200)
    spool.close()
    return best_s * 1e6


def as_csv(rows: list[Row]) -> bytes:
    """As a spreadsheet would have them, without a header."""
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()


def as_json_lines(table: Table, rows: list[Row]) -> bytes:
    """One object a row."""
    names = table.column_names()
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows).encode()


def zstd_bytes(data: bytes) -> int:
    """Size under zstd level 6, the level of the sealed parts."""
    return len(pa.Codec("zstd", 6).compress(data))


def sar_bytes_a_device_row(folder: Path) -> float | None:
    """What sysstat's file grows by for each device and sample; None without sar."""
    places = (Path("/usr/lib/sysstat/sadc"), Path("/usr/lib64/sa/sadc"))
    sadc = next((place for place in places if place.exists()), None)
    if sadc is None or shutil.which("sadf") is None:
        return None
    samples = 4
    growth = {}
    for kind, options in (("with disks", ["-S", "DISK"]), ("without", [])):
        file = folder / kind
        subprocess.run([sadc, *options, "1", "1", file], check=True, capture_output=True)
        first = file.stat().st_size
        subprocess.run([sadc, *options, "1", str(samples), file], check=True, capture_output=True)
        growth[kind] = file.stat().st_size - first
    dump = ["sadf", "-d", folder / "with disks", "--", "-d"]
    out = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    devices = {line.split(";")[3] for line in out.splitlines() if line and line[0] != "#"}
    if not devices:
        return None
    return (growth["with disks"] - growth["without"]) / samples / len(devices)


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=int, default=30)
    minutes: int = parser.parse_args().minutes
    rng = random.Random(7)
    folder = Path(tempfile.mkdtemp(prefix="store_cost-"))
    try:
        return report(folder, minutes, rng)
    finally:
        shutil.rmtree(folder)


def report(folder: Path, minutes: int, rng: random.Random) -> int:
    """All figures, table by table."""
    print(f"{minutes} min at 1 Hz, 8 ranks + 64 workers; bytes a row\n")
    head = "table cols rows/tick flush_us stream parquet csv csv+zstd jsonl jsonl+zstd"
    print("".join(f"{word:>11}" for word in head.split()))
    total_us = 0.0
    total_rows = total_bytes = total_cells = 0
    for name, rows_a_tick in ROWS_A_TICK.items():
        if rows_a_tick == 0:
            continue
        table = TABLES[name]
        spool_folder, cost_folder = folder / name, folder / f"{name}-cost"
        spool_folder.mkdir()
        cost_folder.mkdir()
        spool = SpoolWriter(spool_folder, [table])
        rows: list[Row] = []
        for tick, batch in enumerate(rows_of(table, 60 * minutes, rng)):
            for row in batch:
                spool.append(name, row)
            rows += batch
            spool.flush_due(tick * 1_000_000_000)
        spool.close()
        stream = (spool_folder / f"{name}.arrows").stat().st_size
        parquet = seal_spool(spool_folder).parquet_bytes
        assert open_job(spool_folder).table(name).num_rows == len(rows)
        flush_us = flush_cost_us(table, cost_folder, rows[: 2 * rows_a_tick])
        text, objects = as_csv(rows), as_json_lines(table, rows)
        sizes = (stream, parquet, len(text), zstd_bytes(text), len(objects), zstd_bytes(objects))
        figures = [name, len(table.columns), rows_a_tick, round(flush_us)]
        figures += [round(size / len(rows), 1) for size in sizes]
        print("".join(f"{figure!s:>11}" for figure in figures))
        total_us += flush_us
        total_rows += len(rows)
        total_bytes += parquet
        total_cells += len(rows) * len(table.columns)
    per_budget_row = total_bytes / total_cells * BUDGET_COLUMNS
    print(f"\nall flushes of two seconds: {total_us / 1000:.2f} ms CPU")
    print(
        f"sealed: {total_bytes / total_rows:.1f} B a row, {per_budget_row:.1f} B for "
        f"{BUDGET_COLUMNS} columns (budget {BUDGET_BYTES}: "
        f"{'kept' if per_budget_row <= BUDGET_BYTES else 'MISSED'})"
    )
    sar = sar_bytes_a_device_row(folder)
    told = "not measured" if sar is None else f"{sar:.0f} B a device row of 8 counters"
    print(f"sysstat's binary file: {told}")
    print(
        f"peak RSS of this bench: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
