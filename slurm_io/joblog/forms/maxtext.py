"""MaxText: ``completed step: 9, seconds: 5.667, TFLOP/s/device: …, Tokens/s/device: 8672.758, …``.

The time is this step's; tokens/s are those of one device.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_io.joblog.figures import Fields
from slurm_io.joblog.forms.base import FORMS, Form, known, with_nan
from slurm_io.joblog.model import TORN, Line, Reading

_HEAD = re.compile(r"\bcompleted step: ([0-9]{1,15}),", re.ASCII)
_PAIR = re.compile(r"([\w/]{1,40}): ([^\s,]{1,40})(?=,|$|\s)", re.ASCII)


@FORMS.register("maxtext")
class MaxText(Form):
    """Steps."""

    name = "maxtext"
    markers = (b"completed step: ",)
    has_stamps = False

    def read(self, line: Line) -> Iterable[Reading]:
        """One step a line."""
        head = _HEAD.search(line.text)
        if head is None:
            return ()
        fields = Fields(dict(_PAIR.findall(line.text[head.end() :])))
        step_time_s = fields.number("seconds")
        if step_time_s is None:
            return [TORN]
        tokens = fields.number("Tokens/s/device")
        detail = known(
            zero_based=True,
            basis="step",
            saves="excluded",
            loss=fields.number("loss"),
            tokens_base="per_gpu" if tokens is not None else None,
        )
        detail = with_nan(detail, fields.nan)
        return [Reading("step", int(head[1]), step_time_s, tokens_per_s=tokens, detail=detail)]
