"""timm (PyTorch Image Models): ``Train: 0 [   0/1251 (  0%)]  Loss: …  Time: 3.21s,  315.5/s …``.

Times are this update's, in brackets the mean of the epoch: ``Time: 3.214s,  318.64/s  (3.214s,
318.64/s)  LR: 1.000e-06  Data: 1.284 (1.284)``. Updates count from 0 in each epoch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_io.joblog.figures import Fields, number
from slurm_io.joblog.forms.base import FORMS, Form, known, with_nan
from slurm_io.joblog.model import TORN, Line, Reading

_HEAD = re.compile(
    r"\bTrain: ([0-9]{1,9}) \[ *([0-9]{1,15})/([0-9]{1,15}) \( *[0-9]{1,3}%\)\]", re.ASCII
)
_TIME = re.compile(
    r"\bTime: *([0-9.]{1,24})s, *([0-9.]{1,24})/s +\( *([0-9.]{1,24})s, *[0-9.]{1,24}/s\)", re.ASCII
)
_DATA = re.compile(r"\bData: *([0-9.]{1,24})", re.ASCII)
_LOSS = re.compile(r"\bLoss: *([^\s(]{1,32})")


@FORMS.register("timm")
class Timm(Form):
    """Steps with their data wait."""

    name = "timm"
    markers = (b"Train: ",)
    has_stamps = False

    def read(self, line: Line) -> Iterable[Reading]:
        """One step a line."""
        head = _HEAD.search(line.text)
        if head is None:
            return ()
        rest = line.text[head.end() :]
        time = _TIME.search(rest)
        if time is None:
            return [TORN] if "Time:" in rest else ()
        epoch, n, total = (int(text) for text in head.groups())
        loss, data = _LOSS.search(rest), _DATA.search(rest)
        fields = Fields({"loss": loss[1]} if loss else {})
        detail = known(
            zero_based=True,
            basis="step",
            saves="excluded",
            epoch=epoch,
            step_in_epoch=n,
            steps_per_epoch=total,
            mean_s=number(time[3]),
            data_wait_s=number(data[1]) if data else None,
            loss=fields.number("loss"),
        )
        detail = with_nan(detail, fields.nan)
        step_time_s, samples_per_s = number(time[1]), number(time[2])
        return [Reading("step", epoch * total + n, step_time_s, samples_per_s, detail=detail)]
