"""MosaicML Composer and LLM Foundry: a step is a block of some twenty lines.

``[batch=1/3]:`` (``[epoch=0][batch=5/50]:``), then ``Train throughput/tokens_per_sec: 6598.0451``
and others, with or without the word Train. ``throughput/device/…`` is one device's, without it the
job's; both are means over a window. The step time is the growth of ``wall_clock/train``, which
leaves evaluation out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_io.joblog.figures import Fields, only_whole, ratio, rounding
from slurm_io.joblog.forms.base import FORMS, Form, known, with_nan
from slurm_io.joblog.model import Line, Reading

_HEAD = re.compile(
    r"^\s*(?:\[epoch=([0-9]{1,9})(?:/[0-9]{1,9})?\])?\[(batch|token|sample)=([0-9]{1,18})"
    r"(?:/([0-9]{1,18}))?\]:\s*$",
    re.ASCII,
)
_ENTRY = re.compile(r"^\s+(?:Train )?([A-Za-z][\w/.-]{1,80}): (\S{1,64})\s*$", re.ASCII)
_MOST_ENTRIES = 256


@FORMS.register("composer")
class Composer(Form):
    """Blocks; one is over at the first line that does not belong to it."""

    name = "composer"
    markers = (b"[batch=", b"[token=", b"[sample=")
    has_stamps = False

    def __init__(self) -> None:
        self._head: tuple[str, int, int | None, int | None] | None = None
        self._entries: dict[str, str] = {}
        self._before: tuple[int, float] | None = None
        self._was_open = False
        self._at_byte = 0

    @property
    def is_open(self) -> bool:
        """In a block."""
        return self._head is not None

    def read(self, line: Line) -> Iterable[Reading]:
        """The block before, when this line begins another or is no part of it."""
        head = _HEAD.match(line.text)
        entry = _ENTRY.match(line.text) if head is None else None
        if entry is not None and self._head is not None:
            if len(self._entries) < _MOST_ENTRIES:
                self._entries[entry[1]] = entry[2]
            return ()
        readings = self._close()
        if head is not None:
            epoch, unit, now, total = head.groups()
            self._head = (unit, int(now), int(total or 0) or None, int(epoch) if epoch else None)
            self._was_open = False
            self._at_byte = line.at_byte
        return readings

    def settle(self) -> Iterable[Reading]:
        """A block that has not grown since it was asked last."""
        is_old, self._was_open = self._was_open, self._head is not None
        return self._close() if is_old else ()

    def _close(self) -> list[Reading]:
        head, entries = self._head, self._entries
        self._head, self._entries = None, {}
        if head is None or not any(name.startswith("throughput/") for name in entries):
            return []
        return [self._reading(*head, Fields(entries))]

    def _reading(
        self, unit: str, now: int, total: int | None, epoch: int | None, fields: Fields
    ) -> Reading:
        zero_based = fields.whole("time/batch", "trainer/global_step")
        counts_batches = unit == "batch" and epoch is None
        step = now if counts_batches else None if zero_based is None else zero_based + 1
        elapsed_s = fields.number("wall_clock/train")
        rate = fields.number("throughput/batches_per_sec")
        step_time_s, basis = self._step_time(step, elapsed_s, rate)
        samples = fields.number("throughput/samples_per_sec")
        tokens = fields.number("throughput/tokens_per_sec")
        device_tokens = fields.number("throughput/device/tokens_per_sec")
        detail = known(
            total_steps=total if unit == "batch" and epoch is None else None,
            basis=basis,
            saves="included",
            unit="batch",
            epoch=epoch,
            elapsed_s=elapsed_s,
            elapsed_steps=step if elapsed_s is not None else None,
            tokens_base="total" if tokens is not None else None,
            tokens_per_s_per_gpu=device_tokens,
            gpus=_quotient(fields, "throughput/tokens_per_sec", "throughput/device/tokens_per_sec"),
            tokens_per_sample=_quotient(
                fields, "throughput/tokens_per_sec", "throughput/samples_per_sec"
            ),
            global_batch=_quotient(
                fields, "throughput/samples_per_sec", "throughput/batches_per_sec"
            ),
            loss=fields.number("loss/train/total"),
        )
        detail = with_nan(detail, fields.nan)
        return Reading(
            "step", step, step_time_s, samples, tokens, at_byte=self._at_byte, detail=detail
        )

    def _step_time(
        self, step: int | None, elapsed_s: float | None, rate: float | None
    ) -> tuple[float | None, str | None]:
        """(seconds, basis): growth of the clock since the block before, else the window's mean."""
        before = self._before
        self._before = (step, elapsed_s) if step is not None and elapsed_s is not None else None
        if step is not None and elapsed_s is not None:
            if before is None and step == 1:
                before = (0, 0.0)
            if before is not None and step > before[0] and elapsed_s > before[1]:
                return round((elapsed_s - before[1]) / (step - before[0]), 9), "interval"
        smoothed_s = ratio(1.0, rate)
        return smoothed_s, "smoothed" if smoothed_s is not None else None


def _quotient(fields: Fields, above: str, below: str) -> int | None:
    """A whole number that two rounded figures allow, when they allow only one."""
    a, b = fields.number(above), fields.number(below)
    if a is None or b is None:
        return None
    half_a, half_b = rounding(fields.text(above)), rounding(fields.text(below))
    if b <= half_b:
        return None
    return only_whole((a - half_a) / (b + half_b), (a + half_a) / (b - half_b))
