"""nanoGPT: ``iter 1631: loss 4.0863, time 561.94ms, mfu 23.40%``; the time of this iteration."""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_io.joblog.figures import Fields, in_seconds
from slurm_io.joblog.forms.base import FORMS, Form, known, with_nan
from slurm_io.joblog.model import TORN, Line, Reading

_STEP = re.compile(r"\biter ([0-9]{1,15}): loss ([^\s,]{1,32}), time ([0-9.]{1,24})ms\b", re.ASCII)
_BEGINNING = re.compile(r"\biter [0-9]{1,15}: loss [^\s,]{0,32}(?:, time [0-9.]*)?$", re.ASCII)


@FORMS.register("nanogpt")
class NanoGpt(Form):
    """Steps."""

    name = "nanogpt"
    markers = (b"iter ",)
    has_stamps = False

    def read(self, line: Line) -> Iterable[Reading]:
        """One step a line."""
        found = _STEP.search(line.text)
        if found is None:
            return [TORN] if _BEGINNING.search(line.text[-80:]) else ()
        fields = Fields({"loss": found[2]})
        detail = known(zero_based=True, basis="step", saves="excluded", loss=fields.number("loss"))
        detail = with_nan(detail, fields.nan)
        return [Reading("step", int(found[1]), in_seconds(found[3], "ms"), detail=detail)]
