"""DeepSpeed's throughput timer, in its three generations, and the line of ``steps_per_print``.

``[timer.py:189:stop] 0/40, SamplesPerSec=83.4, …`` (epoch/step: the step is 40),
``0/17, RunningAvgSamplesPerSec=158.3, CurrSamplesPerSec=159.6, …`` and
``epoch=0/micro_step=4500/global_step=4500, RunningAvgSamplesPerSec=…``; beside them
``[Rank 0] step=40, skipped=2, lr=[5e-05], …``. No step time is printed; the stamps of two lines
give it, saves included. The running average is not the value of a step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_io.joblog.figures import Fields, whole
from slurm_io.joblog.forms.base import FORMS, Form, known, with_nan
from slurm_io.joblog.model import TORN, Line, Reading

_TIMER = re.compile(
    r"(?:epoch=[0-9]{1,9}/micro_step=[0-9]{1,15}/global_step=|(?<![\w/])[0-9]{1,9}/)([0-9]{1,15}),"
    r" ?((?:RunningAvg|Curr)?SamplesPerSec=.{0,400})",
    re.ASCII,
)
_STEP = re.compile(r"\bstep=([0-9]{1,15}), skipped=([0-9]{1,15}), lr=", re.ASCII)
_PAIR = re.compile(r"(\w{1,40})=([^,\s]{1,40})(?=,|\s|$)", re.ASCII)


@FORMS.register("deepspeed")
class DeepSpeed(Form):
    """Both lines of a step become one record."""

    name = "deepspeed"
    markers = (b"SamplesPerSec=", b"skipped=")

    def read(self, line: Line) -> Iterable[Reading]:
        """The timer's line or the optimizer's."""
        found = _TIMER.search(line.text)
        if found is not None:
            return [_timer(int(found[1]), Fields(dict(_PAIR.findall(found[2]))))]
        found = _STEP.search(line.text)
        if found is not None:
            detail = known(basis="stamps", saves="included", skipped=whole(found[2]))
            return [Reading("step", int(found[1]), part="optimizer", detail=detail)]
        return [TORN] if "SamplesPerSec=" in line.text else ()


def _timer(step: int, fields: Fields) -> Reading:
    """The first generation's only figure is a running average, and all there is."""
    samples_per_s = fields.number("CurrSamplesPerSec", "SamplesPerSec")
    if samples_per_s is None and not fields.nan:
        return TORN
    is_mean = "CurrSamplesPerSec" not in fields
    detail = known(
        basis="stamps",
        saves="included",
        samples_basis="smoothed" if is_mean else "step",
        samples_per_s_mean=fields.number("RunningAvgSamplesPerSec"),
    )
    detail = with_nan(detail, fields.nan)
    return Reading("step", step, samples_per_s=samples_per_s, part="timer", detail=detail)
