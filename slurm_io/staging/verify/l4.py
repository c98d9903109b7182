"""Level 4: full hash of every file. Too long for a prolog: at staging, on idle spares, weekly."""

from __future__ import annotations

from slurm_io.staging.verify.hashing import HashPool
from slurm_io.staging.verify.work import Work

LEVEL = 4


def run(work: Work, total_bytes: int = 0) -> bool:
    """Hash all; False when the time was over before or some files have no digest."""
    count = work.expected.count
    done = HashPool(work, LEVEL, total_bytes).run(work.expected.rows(range(count)))
    left = [index for index in range(count) if index not in done]
    not_hashed = sum(not work.findings.is_bad(index) for index in left)
    if not_hashed:
        work.note(f"level 4: {not_hashed} of {count} files were not hashed")
    return not_hashed == 0
