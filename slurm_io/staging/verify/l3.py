"""Level 3: full hash of index and metadata files, of what changed, and of a rotating sample.

A sample starts where the last one ended, so that n/s starts hash every file once. Without a kept
cursor (a prolog cannot keep one) it starts anywhere: then only chance covers all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

from slurm_io.staging.verify.hashing import HashPool
from slurm_io.staging.verify.sampling import what_it_proves
from slurm_io.staging.verify.table import Row
from slurm_io.staging.verify.work import Work

LEVEL = 3


def run(work: Work) -> bool:
    """Hash the sample; False when the time was over before the index files and one more."""
    count = work.expected.count
    if count == 0:
        return True
    first = sorted({*work.findings.open, *work.expected.index_files()})
    size = min(count, max(1, math.ceil(count * work.options.sample_share)))
    kept = work.options.cursor
    cursor = (work.options.pick(count) if kept is None else kept) % count
    sample = [(cursor + step) % count for step in range(size)]
    done = HashPool(work, LEVEL).run(_rows(work, first, sample))
    settled = [i in done or work.findings.is_bad(i) for i in sample]
    reached = settled.index(False) if False in settled else size
    work.next_cursor = (cursor + reached) % count
    _tell(work, len(done), sum(settled), size, kept is not None)
    return all(i in done or work.findings.is_bad(i) for i in first) and any(settled)


def _rows(work: Work, first: list[int], sample: list[int]) -> Iterator[tuple[int, Row]]:
    """The rows of both, each once; the sample may wrap around the end."""
    taken = set(first)
    rest = [index for index in sample if index not in taken]
    wrap = next((at for at in range(1, len(rest)) if rest[at] < rest[at - 1]), len(rest))
    parts = (first, rest[:wrap], rest[wrap:])
    return chain.from_iterable(work.expected.rows(part) for part in parts if part)


def _tell(work: Work, done: int, sampled: int, size: int, rotates: bool) -> None:
    count = work.expected.count
    if sampled < size:
        work.note(f"level 3: {size - sampled} of {size} files of the sample were not hashed")
    if done >= count:
        return
    starts = math.ceil(count / max(1, size))
    cover = (
        f"{starts} starts hash every file once"
        if rotates
        else "no cursor is kept, so only chance covers all: --record keeps one"
    )
    work.note(f"level 3 hashed {what_it_proves(count, done)}; {cover}")
