"""A ring reader for the tests, written from docs/development/contracts.md and from nothing else."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EVENTS = {
    1: "loader",
    2: "epoch_start",
    3: "epoch_end",
    4: "ckpt_save",
    5: "ckpt_async",
    6: "ckpt_background",
    7: "load",
    8: "gc",
    9: "exit",
    10: "error",
    11: "padding",
}


@dataclass(frozen=True)
class Batch:
    number: int
    flags: int
    loader: int
    epoch: int
    start: int
    end: int
    index: int
    steps: int
    step_end: int
    gpu_idle: int


@dataclass(frozen=True)
class GpuWait:
    number: int
    flags: int
    loader: int
    epoch: int
    start: int
    end: int
    index: int
    idle: int


@dataclass(frozen=True)
class Event:
    number: int
    kind: str
    blocking: bool
    main: bool
    failed: bool
    start: int
    end: int
    steps: int
    bytes: int
    text: dict[str, Any]


@dataclass
class RingFile:
    name: str
    mode: int
    size: int
    greeting: dict[str, Any]
    n_records: int
    clock_offset: int
    phase: tuple[int, int, int]
    written: int
    state: int
    dropped: int
    skipped: int
    failed: int
    batches: list[Batch] = field(default_factory=list)
    gpu_waits: list[GpuWait] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def of_kind(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind]

    def loaders(self) -> list[dict[str, Any]]:
        return [event.text for event in self.of_kind("loader")]


def read_ring(path: Path) -> RingFile:
    """The ring as it lies there; every record still in it must be whole."""
    raw = path.read_bytes()
    assert raw[0:8] == b"SIORING1"
    header, record, n_records, hello = struct.unpack("<IIII", raw[8:24])
    assert (header, record) == (4096, 64)
    (offset,) = struct.unpack("<q", raw[24:32])
    phase, loader, since, written, state = struct.unpack("<IIQQI", raw[32:60])
    ring = RingFile(
        name=path.name,
        mode=path.stat().st_mode & 0o7777,
        size=len(raw),
        greeting=json.loads(raw[512 : 512 + hello]),
        n_records=n_records,
        clock_offset=offset,
        phase=(phase, loader, since),
        written=written,
        state=state,
        **dict(
            zip(("dropped", "skipped", "failed"), struct.unpack("<QQQ", raw[64:88]), strict=True)
        ),
    )
    _read_records(raw, ring)
    return ring


def _read_records(raw: bytes, ring: RingFile) -> None:
    texts: dict[int, bytes] = {}
    for i in range(max(0, ring.written - ring.n_records), ring.written):
        at = 4096 + 64 * (i % ring.n_records)
        body = raw[at : at + 64]
        first, last = int.from_bytes(body[:8], "little"), int.from_bytes(body[56:], "little")
        assert first == last == i + 1, f"record {i} is not whole: {first}, {last}"
        kind, flags = body[8], body[9]
        (code,) = struct.unpack("<H", body[10:12])
        if kind == 1:
            ring.batches.append(_batch(i, flags, code, body))
        elif kind == 2:
            ring.events.append(_event(i, flags, code, body, texts))
        elif kind == 4:
            ring.gpu_waits.append(_gpu_wait(i, flags, code, body))
        else:
            assert kind == 3
            assert flags <= 40
            (text_id,) = struct.unpack("<I", body[12:16])
            if code == 0:
                texts[text_id] = b""
            texts[text_id] += body[16 : 16 + flags]


def _batch(i: int, flags: int, loader: int, body: bytes) -> Batch:
    epoch, start, end, index, steps, step_end, gpu = struct.unpack("<IQQIIQq", body[12:56])
    return Batch(i, flags, loader, epoch, start, end, index, steps, step_end, gpu)


def _gpu_wait(i: int, flags: int, loader: int, body: bytes) -> GpuWait:
    epoch, start, end, index, zero, nothing, idle = struct.unpack("<IQQIIQq", body[12:56])
    assert zero == nothing == 0
    return GpuWait(i, flags, loader, epoch, start, end, index, idle)


def _event(i: int, flags: int, code: int, body: bytes, texts: dict[int, bytes]) -> Event:
    parts, start, end, text_id, steps, reserved, n_bytes = struct.unpack("<IQQIIQq", body[12:56])
    assert reserved == 0
    text = json.loads(texts[text_id]) if parts else {}
    assert parts == 0 or parts == -(-len(texts[text_id]) // 40)
    return Event(
        i,
        EVENTS[code],
        bool(flags & 1),
        bool(flags & 2),
        bool(flags & 4),
        start,
        end,
        steps,
        n_bytes,
        text,
    )


def read_rings(folder: Path) -> list[RingFile]:
    """Every ring in the folder, by name."""
    return [read_ring(path) for path in sorted(folder.iterdir())]
