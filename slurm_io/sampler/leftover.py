"""After a sampler that was killed: what the hook's rings still hold comes into its spool.

``python -m slurm_io.sampler.leftover SPOOL``, before the spool is sealed and the rings go. Rows are
those that the sampler would have written; what the spool has already is left out, whoever wrote it,
so a reader that was itself killed is simply run again. A ring holds its last records only: what was
overwritten unread is named in meta.json.

Not resident: it may import pyarrow. It holds the spool's lock, as sealing does.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from slurm_io.errors import SlurmIoError, StoreError
from slurm_io.host.same_process import is_alive
from slurm_io.model import SamplerSpec
from slurm_io.sampler.ended import ended_by_itself
from slurm_io.sampler.leftover_facts import (
    LEFTOVER,
    clock_offset_ns,
    pids_outside,
    with_base,
    with_contents,
)
from slurm_io.sampler.leftover_fresh import KEYS, fresh_rows, lost_steps
from slurm_io.sampler.leftover_rings import MOST_RECORDS, RingContent, read_content
from slurm_io.sampler.main import raise_descriptor_limit, read_spec
from slurm_io.sampler.ring_folder import FoundRing, RingFolder
from slurm_io.store.files import read_json_if_there, write_json_atomic
from slurm_io.store.reserve import Reserve
from slurm_io.store.schema import TABLES
from slurm_io.store.seal import alone_in
from slurm_io.store.spool import SpoolWriter

LONGEST_S = 40.0
"""Reading stops by itself then, and meta.json says that it did."""

MOST_ROWS_AT_ONCE = 131072
_LOOKS = 3  # the folder refuses a ring for good at the third
_OTHER_READER_S = 40.0


def take_over(spool: Path, ring_dir: Path | None = None, limit_s: float = LONGEST_S) -> None:
    """Read what is left; nothing where the sampler ended by itself, and so left nothing.

    Args:
        spool: the node folder.
        ring_dir: another way to the rings than ``sampler.json`` names.
        limit_s: how long reading may take.

    Raises StoreError when a sampler lives in `spool`, another process holds its lock, or what it
    has cannot be read; then nothing was added.
    """
    spec = read_spec(spool, None)
    if ended_by_itself(spool) or spec.reads_along:  # those rings are another recording's
        return
    raise_descriptor_limit()
    with alone_in(spool, _OTHER_READER_S):
        _refuse_while_sampled(spool)
        folder = RingFolder(ring_dir or Path(spec.ring_dir), spec.job.uid, removes=False)
        try:
            _Reader(spool, spec, folder, time.monotonic() + limit_s).run()
        finally:
            folder.close()


def note_unread(spool: Path, why: str) -> None:
    """Say in meta.json that nobody could read the rings, unless somebody did. Raises StoreError."""
    meta = read_json_if_there(spool / "meta.json") or {}
    if LEFTOVER not in meta:
        base = with_base(meta, read_spec(spool, None), clock_offset_ns(meta, 0))
        write_json_atomic(spool / "meta.json", {**base, LEFTOVER: {"unread": why}})


class _Reader:
    """One reading of one folder of rings, until `deadline_s` (monotonic)."""

    def __init__(
        self, spool: Path, spec: SamplerSpec, folder: RingFolder, deadline_s: float
    ) -> None:
        self._spool = spool
        self._folder = folder
        self._deadline_s = deadline_s
        self._found = [ring for _ in range(_LOOKS) for ring in folder.scan()]
        meta = read_json_if_there(spool / "meta.json") or {}
        self._offset_ns = clock_offset_ns(meta, _offset_of(self._found))
        self._pids = pids_outside(meta)
        self._meta = with_base(meta, spec, self._offset_ns)
        tables = [TABLES[name] for name in KEYS]
        self._sink = SpoolWriter(spool, tables, max_bytes=spec.spool_max_bytes)
        self._refused = 0
        self._garbage = 0
        self._is_whole = True

    def run(self) -> None:
        """Everything that is new, then what is to be said of it."""
        try:
            for group in self._groups():
                self._take(group)
        finally:
            self._sink.close()
        self._say_the_rest()

    def _is_in_time(self) -> bool:
        return time.monotonic() < self._deadline_s

    def _groups(self) -> Iterator[list[RingContent]]:
        """Some rings at a time: a group costs one look at the spool, and memory."""
        group: list[RingContent] = []
        n_rows = 0
        for content in self._contents():
            group.append(content)
            n_rows += sum(map(len, content.rows.values()))
            if n_rows >= MOST_ROWS_AT_ONCE:
                yield group
                group, n_rows = [], 0
        if group:
            yield group

    def _contents(self) -> Iterator[RingContent]:
        for found in self._found:
            if found.ring.header.n_records > MOST_RECORDS:
                self._refused += 1
                continue
            content = read_content(found, self._pid_of(found), self._offset_ns, self._is_in_time)
            self._folder.remove(found)  # no file of another's: its descriptor
            self._garbage += content.garbage
            self._is_whole &= content.is_whole
            yield content

    def _pid_of(self, found: FoundRing) -> int:
        """A container's own number where nobody knows the one outside."""
        if found.pid_ns is None:
            return found.pid
        process = str(found.starttime), str(found.ring.greeting.rank)
        return self._pids.get(process, found.pid)

    def _take(self, group: list[RingContent]) -> None:
        fresh = fresh_rows(self._spool, group, self._offset_ns)
        lost = list(lost_steps(self._spool, group, fresh["steps"], self._offset_ns))
        # Before the rows: they close the hole that this tells of.
        self._meta = with_contents(self._meta, group, lost)
        self._write_meta()
        for name, rows in fresh.items():
            self._sink.extend(name, list(rows.values()))
        self._sink.flush_all()

    def _say_the_rest(self) -> None:
        stats = self._sink.stats()
        self._meta = with_contents(self._meta, (), ())
        self._meta[LEFTOVER] |= {
            "rings": len(self._found),
            "refused": self._folder.refused + self._refused,
            "garbage": self._garbage,
            "dropped_rows": stats.dropped_rows,
            "drop_reason": stats.drop_reason,
            "unread": None if self._is_whole else "time was up before all was read",
        }
        self._write_meta()

    def _write_meta(self) -> None:
        with Reserve(self._spool).lent(again=False):
            write_json_atomic(self._spool / "meta.json", self._meta)


def _offset_of(found: list[FoundRing]) -> int:
    """UTC − CLOCK_MONOTONIC in the words of the first ring, for want of better."""
    return found[0].ring.header.realtime_minus_monotonic_ns if found else 0


def _refuse_while_sampled(spool: Path) -> None:
    """One that was stopped, or hangs in the kernel, may yet write on."""
    claim = read_json_if_there(spool / "sampler.pid") or {}
    pid, starttime = claim.get("pid"), claim.get("starttime")
    if isinstance(pid, int) and isinstance(starttime, int) and is_alive(pid, starttime):
        raise StoreError(f"{spool}: its sampler still lives (process {pid}): end it first")


def main(arguments: list[str]) -> int:
    """Read the rings of the spool named by the only argument."""
    if len(arguments) != 1:
        print("usage: python -m slurm_io.sampler.leftover SPOOL", file=sys.stderr)
        return 2
    os.nice(19)
    try:
        take_over(Path(arguments[0]))
    except SlurmIoError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
