"""nanotron: ``iteration: 991 / 1000 | consumed_tokens: 634K | … | tokens_per_sec: 14.2K | …``.

All figures are rounded to three digits, so a step time and a rate are ranges. ``consumed_tokens``
may stand still from one step to the next: nothing is derived from it. ``global_batch_size`` counts
samples in older versions and tokens in newer ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_io.joblog.figures import Fields, human, only_whole
from slurm_io.joblog.forms.base import FORMS, Form, known, with_nan
from slurm_io.joblog.model import TORN, Line, Reading

_HEAD = re.compile(r"\biteration: ([0-9]{1,15}) / ([0-9]{1,15}) \|", re.ASCII)
_TIME_NAMES = ("time_per_iteration_ms", "elapsed_time_per_iteration_ms")

Range = tuple[float, float, float]


@FORMS.register("nanotron")
class Nanotron(Form):
    """Steps; the time is this step's, after a barrier over all ranks."""

    name = "nanotron"
    markers = (b"consumed_tokens:",)
    has_stamps = False

    def read(self, line: Line) -> Iterable[Reading]:
        """One step a line."""
        head = _HEAD.search(line.text)
        if head is None:
            return ()
        fields = Fields.of_cells(line.text[head.end() :])
        time_ms = next((human(fields.text(name)) for name in _TIME_NAMES if name in fields), None)
        if time_ms is None:
            return [TORN]
        return [_step(int(head[1]), int(head[2]), fields, time_ms)]


def _step(step: int, total: int, fields: Fields, time_ms: Range) -> Reading:
    low_s, time_s, high_s = (value / 1000 for value in time_ms)
    tokens = human(fields.text("tokens_per_sec"))
    per_gpu = human(fields.text("tokens_per_sec_per_gpu"))
    detail = known(
        total_steps=total,
        basis="step",
        saves="excluded",
        step_time_low_s=round(low_s, 9),
        step_time_high_s=round(high_s, 9),
        loss=fields.number("lm_loss"),
        lr=fields.number("lr"),
        tokens_per_s_per_gpu=per_gpu[1] if per_gpu else None,
    )
    if tokens is not None:
        detail |= known(
            tokens_base="total", tokens_per_s_low=tokens[0], tokens_per_s_high=tokens[2]
        )
        detail |= _tokens_a_step(low_s, high_s, tokens, human(fields.text("global_batch_size")))
    if tokens is not None and per_gpu is not None and per_gpu[0] > 0:
        gpus = only_whole(tokens[0] / per_gpu[2], tokens[2] / per_gpu[0])
        detail |= known(gpus=gpus)
    return Reading(
        "step", step, time_s, None, tokens[1] if tokens else None,
        detail=with_nan(detail, fields.nan),
    )  # fmt: skip


def _tokens_a_step(
    low_s: float, high_s: float, tokens: Range, batch: Range | None
) -> dict[str, object]:
    """Step time x tokens/s; exact where the batch is known and one length of sample fits."""
    low, high = low_s * tokens[0], high_s * tokens[2]
    found = known(tokens_per_step_low=low, tokens_per_step_high=high)
    if batch is None or batch[1] <= 0:
        return found
    if low <= batch[2] and batch[0] <= high:  # the batch is printed in tokens
        return found | known(tokens_per_step=batch[1])
    samples = batch[1]
    length = only_whole(low / samples, high / samples)
    if samples != int(samples) or length is None:
        return found | known(global_batch=samples)
    return found | known(
        global_batch=int(samples), tokens_per_sample=length, tokens_per_step=length * int(samples)
    )
