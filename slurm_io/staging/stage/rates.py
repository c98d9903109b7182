"""How fast copies to this node were before, from its records."""

from __future__ import annotations

import contextlib
import os

from slurm_io.errors import HostError
from slurm_io.staging.record import FILE_NAME, Record, parse

_LONGEST = 1 << 20


def known_rate(state_dir: str, name: str, engines: frozenset[str]) -> float | None:
    """B/s of the best comparable copy: this dataset's, else one by the same engines, else any."""
    best: tuple[int, int] = (-1, 0)
    rate = None
    for record in _records(state_dir):
        if record.bytes_per_s is None or record.bytes_per_s <= 0:
            continue
        same_way = bool(engines) and record.method == "+".join(sorted(engines))
        rank = (2 * same_way + (record.name == name), record.finished_ns)
        if rank > best:
            best, rate = rank, record.bytes_per_s
    return rate


def _records(state_dir: str) -> list[Record]:
    """Those that can be read. An estimate only: nothing is decided by them."""
    found = []
    folder = os.path.join(state_dir, "datasets")
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(folder)):
            with (
                contextlib.suppress(OSError, HostError),
                open(os.path.join(folder, name, FILE_NAME), "rb") as file,
            ):
                found.append(parse(file.read(_LONGEST)))
    return found
