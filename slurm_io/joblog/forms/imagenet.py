"""PyTorch's ImageNet example and the many scripts made from it.

``Epoch: [1][5760/10010]  Time 0.427 (2.773)  Data 0.000 (2.393)  Loss 8.4238 (10.3028)``, tabs
between: the last batch, and in brackets the mean of the epoch so far. Of ten batches nine are not
printed: a stall among them shows in the means only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_io.joblog.figures import Fields, number
from slurm_io.joblog.forms.base import FORMS, Form, known, with_nan
from slurm_io.joblog.model import TORN, Line, Reading

_HEAD = re.compile(
    r"\bEpoch: \[ *([0-9]{1,9})\]\[ *([0-9]{1,15})/([0-9]{1,15})\]", re.ASCII
)  # fmt: skip
_TIME = re.compile(r"\bTime +([0-9.]{1,24}) \( *([0-9.]{1,24})\)", re.ASCII)
_DATA = re.compile(r"\bData +([0-9.]{1,24}) \( *([0-9.]{1,24})\)", re.ASCII)
_LOSS = re.compile(r"\bLoss +([^\s(]{1,32})")


@FORMS.register("imagenet")
class Imagenet(Form):
    """Steps with their data wait; the means give the time of all steps since the epoch began."""

    name = "imagenet"
    all_ranks = True
    markers = (b"Epoch: ",)
    has_stamps = False

    def read(self, line: Line) -> Iterable[Reading]:
        """One step a line."""
        head = _HEAD.search(line.text)
        if head is None:
            return ()
        rest = line.text[head.end() :]
        time = _TIME.search(rest)
        if time is None:
            return [TORN] if not rest.strip() else ()
        epoch, n, total = (int(text) for text in head.groups())
        mean_s, data, loss = number(time[2]), _DATA.search(rest), _LOSS.search(rest)
        fields = Fields({"loss": loss[1]} if loss else {})
        detail = known(
            basis="step",
            saves="excluded",
            unit="batch",
            epoch=epoch,
            step_in_epoch=n,
            steps_per_epoch=total,
            mean_s=mean_s,
            elapsed_s=None if mean_s is None else round(mean_s * (n + 1), 6),
            elapsed_steps=n + 1,
            data_wait_s=number(data[1]) if data else None,
            data_wait_mean_s=number(data[2]) if data else None,
            loss=fields.number("loss"),
        )
        detail = with_nan(detail, fields.nan)
        return [Reading("step", epoch * total + n, number(time[1]), detail=detail)]
