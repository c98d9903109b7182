"""Turns the records of one ring into rows of `steps`, `events` and `gpu_waits`.

An event's text comes in parts, before or after it; an event waits a little for its parts and is
written without them when they do not come. All waiting is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from slurm_io.collectors.base import Row
from slurm_io.sampler.ring_batches import Batches
from slurm_io.sampler.ring_columns import packed_steps
from slurm_io.sampler.ring_format import (
    Batch,
    Event,
    GpuWait,
    Record,
    TextPart,
    parse_json_object,
)
from slurm_io.store.packed import PackedRows

_MAX_TEXTS = 64
_MAX_WAITING = 64
_MAX_DRAINS_WAITED = 3
_MAX_PATH = 4096


class RingRows:
    """Row maker of one ring. `offset_ns` is the sampler's own UTC − CLOCK_MONOTONIC.

    What had ended before `since_ns` (monotonic) is left out, but for the loaders' descriptions.
    """

    def __init__(self, pid: int, rank: int | None, offset_ns: int, since_ns: int = -1) -> None:
        self.pid = pid
        self.rank = rank
        self._offset_ns = offset_ns
        self._since_ns = since_ns
        self._texts: dict[int, dict[int, bytes]] = {}
        self._waiting: list[tuple[int, Event]] = []
        self._gpu_waits: list[Row] = []
        self._packed: list[PackedRows] = []
        self.loaders: dict[int, dict[str, Any]] = {}
        self.batches = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None

    def convert(self, records: Iterable[Record | Batches]) -> tuple[list[Row], list[Row]]:
        """(steps rows, events rows) of one drain. See :meth:`take_gpu_waits` and
        :meth:`take_packed` for the others."""
        steps: list[Row] = []
        for record in records:
            if isinstance(record, Batches):
                self._keep_run(record)
            elif isinstance(record, Batch):
                # A prefetch thread's wait is no wait of the training loop.
                if record.main_thread and record.end_ns > self._since_ns:
                    steps.append(self._step_row(record))
            elif isinstance(record, GpuWait):
                if record.main_thread and record.end_ns > self._since_ns:
                    self._gpu_waits.append(self._gpu_row(record))
            elif isinstance(record, TextPart):
                self._keep_text(record)
            else:
                self._waiting.append((0, record))
        return steps, self._ready_events() if self._waiting else []

    def take_gpu_waits(self) -> list[Row]:
        """Rows of `gpu_waits` since the last call."""
        rows, self._gpu_waits = self._gpu_waits, []
        return rows

    def take_packed(self) -> list[PackedRows]:
        """Rows of `steps` that came many at a time since the last call."""
        blocks, self._packed = self._packed, []
        return blocks

    def flush(self) -> list[Row]:
        """Rows of the events that still wait for text: nothing more will come."""
        rows = [row for _waited, event in self._waiting for row in self._event_rows(event)]
        self._waiting.clear()
        return rows

    def _step_row(self, batch: Batch) -> Row:
        (
            loader, epoch, index, step, start_ns, end_ns, last_step_ns, gpu_idle_ns, first,
            workers, cuda, _main,
        ) = batch  # fmt: skip
        self.batches += 1
        if self.first_ns is None or self.last_ns is None or start_ns < self.first_ns:
            self._saw(start_ns, end_ns)
        elif end_ns > self.last_ns:
            self.last_ns = end_ns
        return (
            start_ns + self._offset_ns, start_ns, self.pid, self.rank, loader, epoch, index, step,
            last_step_ns, end_ns - start_ns, gpu_idle_ns, None, None, first, workers, cuda,
        )  # fmt: skip

    def _keep_run(self, run: Batches) -> None:
        if self._since_ns >= 0:
            run = run.ended_after(self._since_ns)
        if not run.main_thread or not run.n:
            return
        self.batches += run.n
        self._saw(min(run.start_ns), run.last_end_ns)
        self._packed.append(packed_steps(run, self.pid, self.rank, self._offset_ns))

    def _gpu_row(self, wait: GpuWait) -> Row:
        return (
            wait.start_ns + self._offset_ns, wait.start_ns, self.pid, self.rank, wait.loader,
            wait.epoch, wait.batch, wait.idle_ns,
        )  # fmt: skip

    def _saw(self, start_ns: int, end_ns: int) -> None:
        if self.first_ns is None or start_ns < self.first_ns:
            self.first_ns = start_ns
        if self.last_ns is None or end_ns > self.last_ns:
            self.last_ns = end_ns

    def _keep_text(self, part: TextPart) -> None:
        if part.text_id not in self._texts and len(self._texts) >= _MAX_TEXTS:
            del self._texts[next(iter(self._texts))]
        self._texts.setdefault(part.text_id, {})[part.part] = part.data

    def _ready_events(self) -> list[Row]:
        rows: list[Row] = []
        still: list[tuple[int, Event]] = []
        spare = len(self._waiting) - _MAX_WAITING
        for position, (waited, event) in enumerate(self._waiting):
            due = waited >= _MAX_DRAINS_WAITED or position < spare
            if due or self._has_text(event):
                rows += self._event_rows(event)
            else:
                still.append((waited + 1, event))
        self._waiting = still
        return rows

    def _has_text(self, event: Event) -> bool:
        have = self._texts.get(event.text_id, {})
        return all(part in have for part in range(event.parts))

    def _event_rows(self, event: Event) -> list[Row]:
        """One row, or none of an event from before our time."""
        detail = self._take_text(event)
        path = detail.pop("path", None)
        if event.kind == "loader":
            self._keep_loader(detail)
        if event.end_ns <= self._since_ns:
            return []
        self._saw(event.start_ns, event.end_ns)
        return [(
            event.start_ns + self._offset_ns, event.start_ns, self.pid, self.rank, event.kind,
            event.end_ns, event.blocking, event.failed, event.size_bytes,
            clean_text(path) if isinstance(path, str) else None,
            json.dumps(detail) if detail else None, event.step,
        )]  # fmt: skip

    def _take_text(self, event: Event) -> dict[str, Any]:
        if not event.parts or not self._has_text(event):
            return {}
        have = self._texts.pop(event.text_id)
        return parse_json_object(b"".join(have[part] for part in range(event.parts)))

    def _keep_loader(self, detail: dict[str, Any]) -> None:
        number = detail.get("id")
        if isinstance(number, int) and len(self.loaders) < _MAX_TEXTS:
            self.loaders[number] = {"pid": self.pid, "rank": self.rank, **detail}


def clean_text(text: str) -> str:
    """A path that any file can hold: lone surrogates replaced, NUL gone, length bounded."""
    return text[-_MAX_PATH:].encode("utf-8", "replace").decode("utf-8").replace("\0", "?")
