"""The bytes of a hook ring (docs/development/contracts.md, section 1): pure parsing, no I/O.

A ring belongs to the user, so every byte is hostile: a field out of range makes the record
garbage, never an exception and never a number that a column cannot hold.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

MAGIC = b"SIORING1"
HEADER_BYTES = 4096
RECORD_BYTES = 64
GREETING_OFFSET = 512
MAX_RING_BYTES = 64 * 1024 * 1024
MAX_TEXT_PARTS = 16  # 640 bytes of JSON in parts of 40

PHASE_OFFSET = 32
HEAD_OFFSET = 48
STATE_OFFSET = 56
GPU_COUNTS_OFFSET = 64
OWN_WAITS_OFFSET, OWN_WAITS_BYTES = 128, 24 * 16
CLOSED = b"\x02\0\0\0"
_HEADER = struct.Struct("<8sIIIIq")
_PHASE = struct.Struct("<IIQ")
RECORD = struct.Struct("<QBBHIQQIIQqQ")
"""A whole record but a TEXT; the number first and last, the kind second."""
_TEXT = struct.Struct("<QBBHI40sQ")
_GPU_COUNTS = struct.Struct("<QQQ")
_OWN_WAITS = struct.Struct("<QQ")
_NUMBERS = struct.Struct(f"<Q{RECORD_BYTES - 16}xQ")

BATCH, EVENT, TEXT, GPU = 1, 2, 3, 4
PHASE_NAMES = {0: "step", 1: "data_wait", 2: "ckpt", 3: "load"}
EVENT_NAMES = {
    1: "loader", 2: "epoch_start", 3: "epoch_end", 4: "ckpt_save", 5: "ckpt_async",
    6: "ckpt_background", 7: "load", 8: "gc", 9: "exit", 10: "error",
    11: "padding",
}  # fmt: skip
INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True)
class Header:
    """What does not change in a ring. `n_records` is a power of two."""

    n_records: int
    greeting_bytes: int
    realtime_minus_monotonic_ns: int

    def size_bytes(self) -> int:
        """Size the whole file must have."""
        return HEADER_BYTES + RECORD_BYTES * self.n_records


@dataclass(frozen=True)
class Greeting:
    """Who wrote the ring, in its own words. Unknown or malformed is None."""

    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    python: str | None = None
    torch: str | None = None


class Batch(NamedTuple):
    """One timed batch; times are CLOCK_MONOTONIC ns."""

    loader: int
    epoch: int
    batch: int
    step: int
    start_ns: int
    end_ns: int
    last_step_ns: int | None
    gpu_idle_ns: int | None
    first: bool
    workers: bool
    cuda: bool
    main_thread: bool


class GpuWait(NamedTuple):
    """The GPU's idle time in a batch's wait, which began at `start_ns`; told after the batch."""

    loader: int
    epoch: int
    batch: int
    start_ns: int
    end_ns: int
    idle_ns: int
    main_thread: bool


class OwnWaits(NamedTuple):
    """Waits of one loader that reads in the waiting thread: all of them, and the thread's CPU time
    in them. First and short ones are left out."""

    loader: int
    wait_ns: int
    cpu_ns: int


class GpuCounts(NamedTuple):
    """Waits not measured on the GPU: no pair of events was free, or a graph was being captured.
    `failed`: an error ended the measuring."""

    dropped: int
    skipped: int
    failed: bool


class Event(NamedTuple):
    """One event; its text may still be on the way."""

    kind: str
    start_ns: int
    end_ns: int
    step: int
    blocking: bool
    failed: bool
    size_bytes: int | None
    text_id: int
    parts: int


class TextPart(NamedTuple):
    """One piece of an event's text."""

    text_id: int
    part: int
    data: bytes


Record = Batch | GpuWait | Event | TextPart


def parse_header(raw: bytes) -> Header | None:
    """The header, or None when this is no ring of ours or its numbers do not fit."""
    if len(raw) < HEADER_BYTES:
        return None
    magic, header_bytes, record_bytes, n_records, greeting_bytes, offset_ns = _HEADER.unpack_from(
        raw
    )
    if magic != MAGIC or header_bytes != HEADER_BYTES or record_bytes != RECORD_BYTES:
        return None
    if n_records == 0 or n_records & (n_records - 1):
        return None
    header = Header(n_records, min(greeting_bytes, HEADER_BYTES - GREETING_OFFSET), offset_ns)
    return header if header.size_bytes() <= MAX_RING_BYTES else None


def parse_greeting(raw: bytes) -> Greeting:
    """The greeting; anything that is not what it should be becomes None."""
    said = parse_json_object(raw)
    rank = _small_int(said.get("rank"))
    return Greeting(
        rank=rank if rank is not None else _small_int(said.get("slurm_procid")),
        local_rank=_small_int(said.get("local_rank")),
        world_size=_small_int(said.get("world_size")),
        python=_short_text(said.get("python")),
        torch=_short_text(said.get("torch")),
    )


def parse_json_object(raw: bytes) -> dict[str, Any]:
    """A JSON object, or an empty one when `raw` holds none. Never raises.

    NaN and infinities are none: they would make ``meta.json`` unwritable.
    """
    try:
        found = json.loads(raw.decode("utf-8", "replace"))
        json.dumps(found, allow_nan=False)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def parse_phase(raw: bytes) -> tuple[str, int | None]:
    """(phase, loader id in a data_wait) from the 16 bytes at PHASE_OFFSET."""
    if len(raw) < _PHASE.size:
        return "none", None
    phase, loader, _since_ns = _PHASE.unpack_from(raw)
    name = PHASE_NAMES.get(phase, "none")
    return name, loader if name == "data_wait" and loader <= INT32_MAX else None


def parse_gpu_counts(raw: bytes) -> GpuCounts | None:
    """From the 24 bytes at GPU_COUNTS_OFFSET; None when they are cut off or absurd."""
    if len(raw) < _GPU_COUNTS.size:
        return None
    dropped, skipped, failed = _GPU_COUNTS.unpack_from(raw)
    return GpuCounts(dropped, skipped, failed != 0) if max(dropped, skipped) <= _INT64_MAX else None


def parse_own_waits(raw: bytes) -> list[OwnWaits]:
    """From the bytes at OWN_WAITS_OFFSET: loaders with such waits; what is absurd is left out."""
    pairs = _OWN_WAITS.iter_unpack(raw[: len(raw) - len(raw) % _OWN_WAITS.size])
    return [
        OwnWaits(loader, wait_ns, cpu_ns)
        for loader, (wait_ns, cpu_ns) in enumerate(pairs, start=1)
        if 0 < wait_ns <= _INT64_MAX and cpu_ns <= wait_ns
    ]


def record_number(raw: bytes, offset: int) -> int | None:
    """The number of the record at `offset`, or None while it is not whole."""
    first, last = _NUMBERS.unpack_from(raw, offset)
    return first if first == last and first > 0 else None


def parse_record(raw: bytes, offset: int) -> Record | None:
    """One whole record; None when its kind is unknown or a field makes no sense."""
    kind = raw[offset + 8]
    if kind == BATCH:
        return batch_of(RECORD.unpack_from(raw, offset))
    if kind == EVENT:
        return _parse_event(raw, offset)
    if kind == GPU:
        return _gpu_wait_of(RECORD.unpack_from(raw, offset))
    return _parse_text(raw, offset) if kind == TEXT else None


def batch_of(fields: tuple[int, ...]) -> Batch | None:
    """The fields of one whole record of kind BATCH, as :data:`RECORD` unpacks them."""
    (_n, _k, flags, loader, epoch, start, end, index, step, last_step, gpu_idle, _m) = fields
    if (
        not start <= end <= _INT64_MAX
        or epoch > INT32_MAX
        or index > INT32_MAX
        or last_step > _INT64_MAX
    ):
        return None
    return Batch(  # by position: half the price, for each step of each rank
        loader, epoch, index, step, start, end, last_step or None,
        gpu_idle if gpu_idle >= 0 else None,
        flags & 1 != 0, flags & 2 != 0, flags & 4 != 0, not flags & 16,
    )  # fmt: skip


def _gpu_wait_of(fields: tuple[int, ...]) -> GpuWait | None:
    (_n, _k, flags, loader, epoch, start, end, index, _step, _zero, idle, _m) = fields
    if not start <= end <= _INT64_MAX or max(epoch, index) > INT32_MAX or idle < 0:
        return None
    return GpuWait(loader, epoch, index, start, end, min(idle, end - start), not flags & 16)


def _parse_event(raw: bytes, offset: int) -> Event | None:
    (_n, _k, flags, code, parts, start, end, text_id, step, _reserved, n_bytes, _m) = (
        RECORD.unpack_from(raw, offset)
    )
    if code not in EVENT_NAMES or not start <= end <= _INT64_MAX:
        return None
    return Event(
        kind=EVENT_NAMES[code], start_ns=start, end_ns=end, step=step, blocking=bool(flags & 1),
        failed=bool(flags & 4), size_bytes=n_bytes if n_bytes >= 0 else None, text_id=text_id,
        parts=parts if parts <= MAX_TEXT_PARTS else 0,
    )  # fmt: skip


def _parse_text(raw: bytes, offset: int) -> TextPart | None:
    (_n, _k, used, part, text_id, data, _m) = _TEXT.unpack_from(raw, offset)
    if used > 40 or part >= MAX_TEXT_PARTS:
        return None
    return TextPart(text_id, part, data[:used])


def _small_int(value: object) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= INT32_MAX else None  # type: ignore[operator,return-value]


def _short_text(value: object) -> str | None:
    return value[:64].encode("utf-8", "replace").decode() if isinstance(value, str) else None
