"""One store has one report, whoever analyses it: byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.analysis.test_real_store import write_store
from tests.grid.scenarios import RECORDED
from tests.labs.slowfs import REPOSITORY

NAMES = (
    "recorded-nfs-retransmissions",
    "recorded-independent-ranks",
    "recorded-one-node-saves",
    "recorded-one-slow-node-of-8",
    "recorded-thermal-drop",
)
# Folders are listed in another order by each file system; here by each process.
ANALYSIS = """
import os, random, sys

chance, listdir, scandir = random.Random(sys.argv[1]), os.listdir, os.scandir

class Shuffled:
    def __init__(self, found):
        self._found = found
    def __iter__(self):
        return iter(self._found)
    def __enter__(self):
        return self
    def __exit__(self, *error):
        pass

def in_any_order(read, wrap):
    def listed(*place):
        found = list(read(*place))
        chance.shuffle(found)
        return wrap(found)
    return listed

os.listdir = in_any_order(listdir, list)
os.scandir = in_any_order(scandir, Shuffled)

from pathlib import Path
from slurm_io.analysis.api import write_reports

for store in sys.argv[2:]:
    write_reports(Path(store))
"""


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("stores")
    known = {one.name: one for one in RECORDED}
    return [write_store(folder / name, known[name].make()[0]) for name in NAMES]


@pytest.fixture(scope="module")
def first(stores: list[Path]) -> dict[str, bytes]:
    return reports_of(stores, "0", threads=1)


def reports_of(stores: list[Path], seed: str, threads: int) -> dict[str, bytes]:
    """The reports that a process of its own makes of `stores`, by name and form."""
    environment = {**os.environ, "PYTHONHASHSEED": seed, "POLARS_MAX_THREADS": str(threads)}
    command = [sys.executable, "-c", ANALYSIS, seed, *map(os.fspath, stores)]
    subprocess.run(command, env=environment, cwd=REPOSITORY, check=True, timeout=120)
    return {
        f"{store.name}/{name}": (store / name).read_bytes()
        for store in stores
        for name in ("report.json", "report.txt")
    }


@pytest.mark.parametrize(("seed", "threads"), [("1", 1), ("2", 2), ("31337", 8)])
def test_hash_seed_listing_order_and_threads_change_nothing(
    stores: list[Path], first: dict[str, bytes], seed: str, threads: int
) -> None:
    again = reports_of(stores, seed, threads)
    assert [name for name in first if again[name] != first[name]] == []


def test_rows_cut_into_other_parts_change_nothing(
    stores: list[Path], first: dict[str, bytes], tmp_path: Path
) -> None:
    """A sampler that rotated its streams leaves several parts of a table."""
    for store in stores:
        for part in store.glob("node=*/*-0000.parquet"):
            cut_in_three(part)
    again = reports_of(stores, "0", threads=2)
    assert [name for name in first if again[name] != first[name]] == []


def cut_in_three(part: Path) -> None:
    table = pq.read_table(part)
    third = table.num_rows // 3
    if not third or "ts_ns" not in table.column_names:
        return
    table = table.sort_by("ts_ns")
    for number, start in enumerate((0, third, 2 * third)):
        piece = table.slice(start, third if number < 2 else None)
        pq.write_table(piece, part.with_name(part.name.replace("0000", f"{number:04d}")))
