"""``weka status``: what the whole cluster does, as its command line prints it for people.

Cluster-wide, hence never charged to a node or a job, and it needs a login: the sampler does not
call it. It is for text that a person has at hand.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from slurm_io.filesystems.counter_text import LARGEST, counter
from slurm_io.filesystems.sizes import parse_size

_RATE = re.compile(r"(?P<size>[0-9.]+ ?[A-Za-z]+)/s \((?P<io>\d+) IO/s\)", re.ASCII)
_OPERATIONS = re.compile(r"(\d+) ops/s", re.ASCII)
_STATUS = re.compile(r"(?P<word>\w+)(?: \((?P<detail>.*)\))?")


class WekaStatus(NamedTuple):
    """Rates are the cluster's. None = the text does not say."""

    cluster: str | None
    status: str | None
    status_detail: str | None
    io_status: str | None
    reads_bytes_s: int | None
    reads_io_s: int | None
    writes_bytes_s: int | None
    writes_io_s: int | None
    operations_s: int | None


def parse_status(text: str) -> WekaStatus:
    """Never raises; lines that are not ``name: value`` mean nothing here."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    status = _STATUS.fullmatch(fields.get("status", ""))
    operations = _OPERATIONS.fullmatch(fields.get("operations", ""))
    return WekaStatus(
        fields.get("cluster", "").partition(" (")[0] or None,
        status["word"] if status else None,
        status["detail"] if status else None,
        fields.get("io status"),
        *_rates(fields.get("reads", "")),
        *_rates(fields.get("writes", "")),
        counter(operations[1]) if operations else None,
    )


def _rates(text: str) -> tuple[int | None, int | None]:
    found = _RATE.fullmatch(text)
    if found is None:
        return None, None
    size = parse_size(found["size"])
    is_sane = size is not None and size.size_bytes < LARGEST
    return size.size_bytes if size and is_sane else None, counter(found["io"])
