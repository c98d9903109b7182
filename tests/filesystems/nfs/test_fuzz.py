"""Damaged mountstats: never an error, never a row that cannot be.

The long run takes SLURM_IO_FUZZ_S seconds (900 by default) and prints its figures.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from slurm_io.collectors.nfs import Nfs
from slurm_io.filesystems.nfs.mountstats import parse_mountstats
from slurm_io.filesystems.nfs.rpc_totals import parse_rpc_totals
from slurm_io.store.schema import TABLES
from tests.collectors.fake_host import context, tick, write_tree
from tests.filesystems.counter_mutations import mutate

FIXTURES = Path(__file__).parents[2] / "fixtures" / "nfs"
LONG_S = float(os.environ.get("SLURM_IO_FUZZ_S", "900"))
COLUMNS = TABLES["fsclient"].column_names()


def check_row(row: tuple[object, ...]) -> None:
    """What holds for every row of a client's counters, whatever its source held."""
    values: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
    for name in ("ops", "bytes", "retrans", "errors"):
        assert values[name] is None or 0 <= values[name] < 2**63, name
    for name in ("rtt_ms", "exe_ms", "queue_ms"):
        assert values[name] is None or 0 <= values[name] < 3e38, name
    assert values["inflight"] is None or 0 <= values["inflight"] < 2**31
    assert values["interval_ns"] > 0
    values["mount"].encode()


class Fuzz:
    """Mutated files, one after the other, through one collector: each tick another damage."""

    def __init__(self, root: Path, seed: int) -> None:
        self._chance = random.Random(seed)
        self._root = root
        self._seeds = [path.read_bytes() for path in sorted(FIXTURES.glob("mount*"))]
        self._totals = (FIXTURES / "proc_net_rpc_nfs.txt").read_bytes()
        self._current = self._seeds[0]
        self._second = 0
        self.outcomes = Counter[str]()
        write_tree(root, {"proc/self/mountinfo": "1 0 0:50 / /ifs rw - nfs nfs-a:/ifs rw\n"})
        self._nfs = self._open()

    def _open(self) -> Nfs:
        nfs = Nfs()
        (self._root / "proc/self/mountstats").write_bytes(self._current)
        assert nfs.open(context(self._root)).state == "on"
        return nfs

    def one(self) -> None:
        chance = self._chance
        if chance.random() < 0.05:
            self._current = chance.choice(self._seeds)
            self._nfs.close()
            self._nfs = self._open()
        data = mutate(self._current, self._seeds, chance)
        if chance.random() < 0.3:
            self._current = data
        mounts = parse_mountstats(data)
        self.outcomes["mounts"] += len(mounts)
        self.outcomes["unread lines"] += sum(mount.unread_lines for mount in mounts)
        parse_rpc_totals(mutate(self._totals, self._seeds, chance).decode("ascii", "replace"))
        (self._root / "proc/self/mountstats").write_bytes(data)
        self._second += 1
        rows = self._nfs.collect(tick(self._second))
        for row in rows:
            check_row(row)
        keys = [(row[3], row[5], row[6]) for row in rows]
        assert len(keys) == len(set(keys))  # mount, source and class are the table's key
        self._nfs.facts()
        self.outcomes["rows"] += len(rows)
        self.outcomes["files"] += 1


def test_damaged_mountstats_never_give_an_impossible_row(tmp_path: Path) -> None:
    fuzz = Fuzz(tmp_path, 5)
    for _ in range(700):
        fuzz.one()
    assert fuzz.outcomes["rows"] > 100 and fuzz.outcomes["unread lines"] > 50


@pytest.mark.long
@pytest.mark.timeout(int(LONG_S) + 300)
def test_long_fuzz(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fuzz, end_s = Fuzz(tmp_path, time.time_ns()), time.monotonic() + LONG_S
    while time.monotonic() < end_s:
        fuzz.one()
    with capsys.disabled():
        print(f"\nnfs fuzz, {LONG_S:.0f} s: {dict(fuzz.outcomes)}")
    assert fuzz.outcomes["rows"]
