"""A spool as a killed sampler leaves it: what it had written, by its own classes, and no more."""

from __future__ import annotations

import json
import weakref
from pathlib import Path
from typing import Any

from slurm_io.sampler.rings import FindPid, Rings
from slurm_io.store.reader import open_job
from slurm_io.store.schema import TABLES
from slurm_io.store.spool import SpoolWriter
from tests.sampler.ring_maker import RingMaker

OFFSET_NS = 1_000_000_000_000
MS = 1_000_000


class DeadSampler:
    """Reads rings into `spool` until it is no longer asked to. Its meta.json says nothing of an
    end."""

    def __init__(
        self,
        spool: Path,
        rings: Path,
        uid: int,
        find_pid: FindPid = lambda pid, _starttime, _ns: pid,
    ) -> None:
        self.spool = spool
        self.rings = Rings(rings, uid, OFFSET_NS, find_pid)
        self._sink = SpoolWriter(spool, TABLES.values())
        weakref.finalize(self, self.rings.close)
        self.write_meta()

    def write_meta(self, **facts: Any) -> None:
        """meta.json as of now."""
        meta = {
            "schema": 1,
            "clock": {"realtime_minus_monotonic_ns": OFFSET_NS},
            "clean_end": False,
            "end_reason": None,
            "ranks": self.rings.rank_facts(),
            "loaders": self.rings.loader_facts(),
            **facts,
        }
        (self.spool / "meta.json").write_text(json.dumps(meta))

    def read(self) -> None:
        """All that is in the rings now, to the kernel."""
        steps, events = self.rings.drain()
        self._sink.extend("steps", steps)
        self._sink.extend_packed("steps", self.rings.take_packed())
        self._sink.extend("events", events)
        self._sink.extend("gpu_waits", self.rings.take_gpu_waits())
        self._sink.flush_all()


def train(ring: RingMaker, first: int, last: int, epoch: int = 0) -> None:
    """Batches `first` to `last` - 1, 10 ms apart."""
    for index in range(first, last):
        start_ns = (epoch * 100_000 + index + 1) * 10 * MS
        ring.batch(start_ns, start_ns + MS, index=index, step=index, epoch=epoch)


def batches(spool: Path) -> list[int]:
    """The batch indexes of the steps rows, in the order of the table."""
    return [row["batch"] for row in rows_of(spool, "steps")]


def rows_of(spool: Path, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = open_job(spool).table(table).to_pylist()
    return rows


def meta_of(spool: Path) -> dict[str, Any]:
    meta: dict[str, Any] = json.loads((spool / "meta.json").read_text())
    return meta
