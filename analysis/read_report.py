"""``reads`` of the report: what each pass asked for, what of it came from storage.

``{by: "epoch"|"time", readers, mounts: [{mount, fstype}], slices: [{epochs: [first, last]|null,
from, to, span_s, batches|null, asked_bytes, storage_bytes: {low, high}, client_bytes, majflt,
held: {low, high}, wait_per_batch_s, seen_share, reason, text}], contrast: {agrees, text}, limits:
[text]}``. Bytes over all nodes; ``held`` is a share of ``asked_bytes``; null is not known, and
``reason`` says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slurm_io.analysis.amounts import size
from slurm_io.analysis.cold_epoch import CONTRAST
from slurm_io.analysis.reads import Reads, ReadSlice
from slurm_io.analysis.rules.base import iso
from slurm_io.analysis.witness import Witness

_FEW = 0.005


def read_report(reads: Reads | None, witnesses: Sequence[Witness]) -> dict[str, Any] | None:
    """None where no process's reads were recorded at all."""
    if reads is None or all(one.asked_bytes is None for one in reads.slices):
        return None
    contrast = next(one for one in witnesses if one.name == CONTRAST)
    return {
        "by": reads.kind,
        "readers": reads.readers,
        "mounts": [{"mount": mount, "fstype": fstype} for mount, fstype in reads.mounts],
        "slices": [_slice(one, place, len(reads.slices)) for place, one in enumerate(reads.slices)],
        "contrast": {"agrees": contrast.agrees, "text": contrast.text},
        "limits": _limits(reads),
    }


def _slice(one: ReadSlice, place: int, count: int) -> dict[str, Any]:
    return {
        "epochs": None if one.epochs is None else list(one.epochs),
        "from": iso(one.start_ns),
        "to": iso(one.end_ns),
        "span_s": round(one.span_s, 3),
        "batches": one.batches or None,
        "asked_bytes": _whole(one.asked_bytes),
        "storage_bytes": {"low": _whole(one.storage.low), "high": _whole(one.storage.high)},
        "client_bytes": _whole(one.client_bytes),
        "majflt": one.majflt,
        "held": {"low": _share(one.held_low), "high": _share(one.held_high)},
        "wait_per_batch_s": None
        if one.wait_per_batch_s is None
        else round(one.wait_per_batch_s, 6),
        "seen_share": _share(one.seen_share),
        "reason": one.why or None,
        "text": f"{_name(one, place, count)}: {_text(one)}",
    }


def _name(one: ReadSlice, place: int, count: int) -> str:
    if one.epochs is None:
        return "whole job" if count == 1 else f"part {place + 1} of {count}"
    first, last = one.epochs
    return f"epoch {first}" if first == last else f"epochs {first}-{last}"


def _text(one: ReadSlice) -> str:
    wait = one.wait_per_batch_s
    waited = "" if wait is None else f"; waited {_milliseconds(wait)} a batch"
    if one.asked_bytes is None:
        return f"what was read is not known{waited}"
    return f"{size(one.asked_bytes)} asked for, {_storage(one)} from storage{_held(one)}{waited}"


def _storage(one: ReadSlice) -> str:
    low, high = one.storage.low, one.storage.high
    if low is None or (high is None and low == 0):
        return "an unknown part"
    if high is None:
        return f"at least {size(low)}"
    same = high - low <= 0.01 * max(high, 1.0)
    return size(high) if same else f"{size(low)} to {size(high)}"


def _held(one: ReadSlice) -> str:
    if one.held_high is None or (one.held_low is None and one.storage.low == 0):
        return ""
    low = one.held_low or 0.0
    if one.held_high - low < _FEW:
        return f" ({one.held_high:.0%} from memory)"
    return f" ({low:.0%} to {one.held_high:.0%} from memory)"


def _limits(reads: Reads) -> list[str]:
    found = ["asked for counts read calls on anything, pipes too, and no reads through mmap"]
    if reads.mapped:
        found.append("files are mapped: see major faults and bytes from storage")
    if any(fstype == "fuse.juicefs" for _, fstype in reads.mounts):
        found.append("JuiceFS: bytes past the page cache; its daemon may hold them itself")
    if any(one.client_bytes is not None for one in reads.slices):
        found.append("client bytes are the whole node's: an upper bound where others use the mount")
    seen = [one.seen_share for one in reads.slices if one.seen_share is not None]
    if seen and min(seen) < 0.9:
        least = f"{min(seen):.0%}"
        found.append(f"workers were looked at for {least} of a pass's time or more: sums are low")
    if reads.thinned:
        found.append("a long job: sums are estimates from evenly spread seconds")
    return found


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _share(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _milliseconds(value_s: float) -> str:
    return f"{value_s * 1000:.3g} ms" if value_s < 1 else f"{value_s:.3g} s"
