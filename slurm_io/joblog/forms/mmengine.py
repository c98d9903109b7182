"""MMEngine, MMCV and Detectron2: lines with ``time:`` and ``data_time:``, both in seconds.

``Epoch(train) [1][ 50/100]  lr: …  time: 0.3082  data_time: 0.0042  memory: …``, ``Iter(train)
[720/768]  …``, older ``Epoch [1][1500/14659]  lr: …, time: 0.739, data_time: 0.049, …``, Detectron2
``eta: 8:05:12  iter: 1259  …  time: 0.3322  data_time: 0.0334``. Means over some last iterations;
the data time is inside the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_io.joblog.figures import Fields
from slurm_io.joblog.forms.base import FORMS, Form, known, with_nan
from slurm_io.joblog.model import TORN, Line, Reading

_OF_EPOCH = re.compile(
    r"\bEpoch ?(?:\(train\))? *\[ *([0-9]{1,9})\]\[ *([0-9]{1,15})/([0-9]{1,15})\]", re.ASCII
)
_OF_RUN = re.compile(r"\bIter ?(?:\(train\))? *\[ *([0-9]{1,15})/([0-9]{1,15})\]", re.ASCII)
_OF_DETECTRON = re.compile(r"\beta: .{1,40}? +iter: ([0-9]{1,15}) ", re.ASCII)
_PAIR = re.compile(r"\b(time|data_time|loss|total_loss|lr): *([^\s,]{1,32})", re.ASCII)


@FORMS.register("mmengine")
class MMEngine(Form):
    """Steps of training; lines of validation are left out."""

    name = "mmengine"
    markers = (b"data_time:",)
    has_stamps = False

    def read(self, line: Line) -> Iterable[Reading]:
        """One step a line."""
        place = _place(line.text)
        if place is None:
            return ()
        fields = Fields(dict(_PAIR.findall(line.text)))
        step_time_s = fields.number("time")
        if step_time_s is None:
            return [TORN]
        step, detail = place
        detail |= known(
            basis="smoothed",
            saves="excluded",
            data_wait_s=fields.number("data_time"),
            loss=fields.number("loss", "total_loss"),
            lr=fields.number("lr"),
        )
        return [Reading("step", step, step_time_s, detail=with_nan(detail, fields.nan))]


def _place(text: str) -> tuple[int, dict[str, object]] | None:
    """(step, what else the head says); epochs count from 1."""
    found = _OF_EPOCH.search(text)
    if found is not None:
        epoch, n, total = (int(group) for group in found.groups())
        step = max(0, epoch - 1) * total + n
        return step, known(epoch=epoch, step_in_epoch=n, steps_per_epoch=total, unit="batch")
    found = _OF_RUN.search(text)
    if found is not None:
        return int(found[1]), known(total_steps=int(found[2]))
    found = _OF_DETECTRON.search(text)
    return (int(found[1]), known(zero_based=True)) if found is not None else None
