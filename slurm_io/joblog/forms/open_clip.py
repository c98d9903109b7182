"""open_clip: ``Train Epoch: 1 [ 32833536/407371776 (8%)] … Data (t): 0.080 Batch (t): 1.762s, …``.

The counts are samples, not steps: with the batch (step time x samples/s, as far as rounding leaves
one that divides the count) they give the step. Times are means since the line before; the data wait
is inside the batch time. The rate is written ``37194/s``, ``37194/s, 145.3/s/gpu`` or
``Samples/Second: 37194``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from slurm_io.joblog.figures import Fields, number, rounding
from slurm_io.joblog.forms.base import FORMS, Form, known, with_nan
from slurm_io.joblog.model import TORN, Line, Reading

_HEAD = re.compile(r"\bTrain Epoch: ([0-9]{1,9}) \[ *([0-9]{1,15})/([0-9]{1,15}) ", re.ASCII)
_DATA = re.compile(r"\bData \(t\): ([0-9.]{1,24})", re.ASCII)
_BATCH = re.compile(r"\bBatch \(t\): ([0-9.]{1,24})s?\b", re.ASCII)
_RATE = re.compile(r"(?:Samples/Second: ([0-9.]{1,24})|, ([0-9.]{1,24})/s(?![/\w]))", re.ASCII)
_RATE_A_GPU = re.compile(r"([0-9.]{1,24})/s/gpu", re.ASCII)
_LOSS = re.compile(r"\bLoss: ([^\s(]{1,32})")
_MOST_BATCHES_TRIED = 100_000


@FORMS.register("open_clip")
class OpenClip(Form):
    """Steps with their data wait."""

    name = "open_clip"
    markers = (b"Train Epoch: ",)
    has_stamps = False

    def read(self, line: Line) -> Iterable[Reading]:
        """One step a line."""
        head = _HEAD.search(line.text)
        if head is None:
            return ()
        rest = line.text[head.end() :]
        batch_time = _BATCH.search(rest)
        step_time_s = number(batch_time[1]) if batch_time else None
        if batch_time is None or step_time_s is None:
            return [TORN] if "Data (t)" in rest or "Loss" in rest else ()
        epoch, done, total = (int(text) for text in head.groups())
        return [_step(epoch, done, total, rest, batch_time[1], step_time_s)]


def _step(
    epoch: int, done: int, total: int, rest: str, time_text: str, step_time_s: float
) -> Reading:
    rate = _RATE.search(rest)
    rate_text = (rate[1] or rate[2]) if rate else ""
    samples_per_s = number(rate_text)
    half = rounding(time_text), rounding(rate_text)
    batch = _batch(done, step_time_s, samples_per_s, half)
    of_epoch = round(total / batch) if batch else None
    in_epoch = done // batch if batch else None
    step = epoch * of_epoch + in_epoch if of_epoch is not None and in_epoch is not None else None
    loss = _LOSS.search(rest)
    data = _DATA.search(rest)
    a_gpu = _RATE_A_GPU.search(rest)
    fields = Fields({"loss": loss[1]} if loss else {})
    detail = known(
        basis="interval",
        saves="excluded",
        unit="batch",
        data_wait_s=number(data[1]) if data else None,
        epoch=epoch,
        samples_done=done,
        samples_total=total,
        global_batch=batch,
        step_in_epoch=in_epoch,
        steps_per_epoch=of_epoch,
        samples_per_s_per_gpu=number(a_gpu[1]) if a_gpu else None,
        loss=fields.number("loss"),
    )
    return Reading("step", step, step_time_s, samples_per_s, detail=with_nan(detail, fields.nan))


def _batch(
    done: int, step_time_s: float, samples_per_s: float | None, half: tuple[float, float]
) -> int | None:
    """The one batch size that the rounded figures allow and that divides the samples done."""
    if samples_per_s is None or done <= 0:
        return None
    low = math.ceil((step_time_s - half[0]) * (samples_per_s - half[1]))
    high = math.floor((step_time_s + half[0]) * (samples_per_s + half[1]))
    if low < 1 or high - low > _MOST_BATCHES_TRIED:
        return None
    fitting = [batch for batch in range(low, high + 1) if done % batch == 0]
    return fitting[0] if len(fitting) == 1 else None
