"""torch's distributed checkpoints: ``.metadata`` against the ``__<rank>_<n>.distcp`` files.

``.metadata`` is written last, by one rank, when all others have reported, aside and then renamed.
It is a pickle that says which part of which file holds each tensor: a file must reach to the end of
its last part. A save over an older one of the same name keeps the old ``.metadata`` until its end,
so files much younger than it belong to a save that did not end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from slurm_io.staging.checkpoints.found import Found
from slurm_io.staging.checkpoints.model import Judged, Problem
from slurm_io.staging.checkpoints.names import shown
from slurm_io.staging.checkpoints.pickle_stub import PickleError, Stub, read_pickle

METADATA = ".metadata"
MOST_METADATA_BYTES = 64 * 2**20
_KEPT = ("Metadata", "_StorageInfo")
PART = re.compile(r"__\d+_\d+\.distcp")
_LATER_NS = 60 * 10**9  # clocks of nodes differ by seconds; two saves are further apart


def is_distributed(found: Found) -> bool:
    """Whether the folder holds such a checkpoint, or what one left."""
    names = found.top()
    has_parts = any(PART.fullmatch(name) for name in names)
    return has_parts or f"{METADATA}.tmp" in names or METADATA in names


def judge_parts(found: Found) -> Judged:
    """By sizes and names. Raises OSError."""
    parts = {name: one for name, one in found.files.items() if PART.fullmatch(name)}
    if METADATA not in found.files:
        text = f"not there: it is written last ({len(parts)} files of ranks are)"
        return Judged("unfinished", (Problem(METADATA, text),))
    size = found.files[METADATA].size_bytes
    if size > MOST_METADATA_BYTES:
        return Judged("unknown", (), (f"{METADATA} has {size} bytes, too many for a look",))
    try:
        needed = _needed(found.read(METADATA, MOST_METADATA_BYTES))
    except PickleError as error:
        if error.is_cut:
            return Judged("broken", (Problem(METADATA, str(error)),))
        return Judged("unknown", (), (f"{METADATA}: {error}",))
    problems = [*_sizes(found, needed), *_overwritten(found, needed)]
    extra = sorted(parts.keys() - needed.keys())
    notes = [f"{len(extra)} files of no rank of this save, such as {extra[0]}"] if extra else []
    return Judged("broken" if problems else "whole", tuple(problems), tuple(notes))


def _needed(data: bytes) -> dict[str, int]:
    """File -> bytes it must have at least. Raises PickleError."""
    stored = getattr(read_pickle(data, _KEPT), "storage_data", None)
    if not isinstance(stored, dict):
        raise PickleError("it does not say where tensors lie")
    needed: dict[str, int] = {}
    for name, end in map(_part, stored.values()):
        needed[name] = max(end, needed.get(name, 0))
    return needed


def _part(info: Any) -> tuple[str, int]:
    if isinstance(info, Stub):
        name, offset, length = (
            getattr(info, key, None) for key in ("relative_path", "offset", "length")
        )
        if isinstance(offset, int) and isinstance(length, int) and min(offset, length) >= 0:
            return shown(str(name)), offset + length
    raise PickleError("it says in a way not known where tensors lie")


def _sizes(found: Found, needed: dict[str, int]) -> Iterator[Problem]:
    for name, least in sorted(needed.items()):
        there = found.files.get(name)
        if there is None:
            what = found.others.get(name)
            yield Problem(name, f"{what} stands there" if what else "missing")
        elif there.size_bytes < least:
            yield Problem(name, f"{there.size_bytes} bytes, {METADATA} says {least}: cut short")
        elif there.size_bytes > least:
            yield Problem(
                name, f"{there.size_bytes} bytes, {METADATA} says {least}: of another save"
            )


def _overwritten(found: Found, needed: dict[str, int]) -> Iterator[Problem]:
    committed_ns = found.files[METADATA].written_ns
    for name in sorted(needed):
        there = found.files.get(name)
        if there is not None and there.written_ns > committed_ns + _LATER_NS:
            late_s = (there.written_ns - committed_ns) // 10**9
            yield Problem(name, f"written {late_s} s after {METADATA}: a later save did not end")
