"""NVIDIA NeMo: Lightning's bar with figures of its own, and the lines of NeMo 2.

``Epoch 0: :   3%|▎  | 9000/301500 [1:42:42<55:37:46, …, global_step=9e+3, consumed_samples=6.3e+5,
train_step_timing in s=0.615]``: the bar's count is exact, ``global_step`` counts from 0 and has
three digits or fewer. ``Training epoch 0, iteration 1/249 | … | global_step: 1 | … |
train_step_timing in s: 2.505`` counts from 0 too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_io.joblog.bar_reading import progress
from slurm_io.joblog.figures import Fields, only_whole, ratio, rounding
from slurm_io.joblog.forms.base import FORMS, Form, known, with_nan
from slurm_io.joblog.model import TORN, Bar, Line, Reading

_HEAD = re.compile(
    r"\bTraining epoch ([0-9]{1,9}), iteration ([0-9]{1,15})(?:/([0-9]{1,15}))? \|", re.ASCII
)
_TIMING = "train_step_timing in s"
_OWN = (_TIMING, "consumed_samples", "global_step")


@FORMS.register("nemo")
class Nemo(Form):
    """Bars of NeMo 1, lines of NeMo 2."""

    name = "nemo"
    markers = (b"Training epoch ",)
    has_stamps = False

    def read(self, line: Line) -> Iterable[Reading]:
        """One step a line."""
        head = _HEAD.search(line.text)
        if head is None:
            return ()
        fields = Fields.of_cells(line.text[head.end() :])
        step_time_s = fields.number(_TIMING)
        if step_time_s is None:
            return [TORN]
        step = fields.whole("global_step")
        batch = fields.whole("global_batch_size")
        detail = known(
            total_steps=int(head[3]) + 1 if head[3] else None,
            zero_based=True,
            basis="step",
            saves="excluded",
            epoch=int(head[1]),
            global_batch=batch,
            loss=fields.number("reduced_train_loss"),
            lr=fields.number("lr"),
        )
        detail = with_nan(detail, fields.nan)
        return [
            Reading(
                "step", int(head[2]) if step is None else step, step_time_s,
                ratio(batch, step_time_s), detail=detail,
            )
        ]  # fmt: skip

    def bar(self, bar: Bar) -> Reading | None:
        """A bar with figures that only NeMo puts there."""
        if not any(name in bar.postfix for name in _OWN):
            return None
        fields = Fields(bar.postfix)
        step_s = fields.number(_TIMING)
        done = fields.number("consumed_samples")
        detail = known(
            loss=fields.number("reduced_train_loss", "loss"),
            val_loss=fields.number("val_loss"),
            samples_per_step=_rounded(ratio(done, bar.n)),
            global_batch=_batch(done, rounding(fields.text("consumed_samples")), bar.n),
        )
        reading = progress(bar, _step(bar, fields), step_time_s=step_s, **detail)
        mean_s = reading.detail.get("mean_s")
        outside = {}
        if step_s is not None and isinstance(mean_s, float) and mean_s > 0:
            outside = {"outside_step_share": round(max(0.0, 1 - step_s / mean_s), 4)}
        return Reading(
            "progress", reading.step, reading.step_time_s,
            detail=with_nan({**reading.detail, **outside}, fields.nan),
        )  # fmt: skip


def _step(bar: Bar, fields: Fields) -> int | None:
    """The bar's count where ``global_step`` does not speak against it (it does in later epochs)."""
    from_zero = fields.number("global_step")
    if from_zero is None:
        return bar.n
    half = rounding(fields.text("global_step"))
    if abs(bar.n - 0.5 - from_zero) <= half + 0.5:
        return bar.n
    step = fields.whole("global_step")
    return step + 1 if half < 1 and step is not None else None


def _batch(done: float | None, half: float, n: int) -> int | None:
    return only_whole((done - half) / n, (done + half) / n) if done is not None and n > 0 else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
