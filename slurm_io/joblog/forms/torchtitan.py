"""torchtitan: ``[titan] … INFO - step:  4  loss:  7.62585  …  tps: 10,050  tflops: 314.71  …``.

Tokens/s are those of one device (``wps`` in older versions). With LOG_RANK set every rank prints
the same step, without saying which it is. No step time is printed; the stamps of two steps give it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_io.joblog.figures import Fields
from slurm_io.joblog.forms.base import FORMS, Form, known, with_nan
from slurm_io.joblog.model import TORN, Line, Reading

_HEAD = re.compile(r"\bstep: *([0-9]{1,15}) +(?=loss:)", re.ASCII)
_PAIR = re.compile(r"(\w{1,40}): *([^\s%]{1,40})(?=\s|%|$)", re.ASCII)


@FORMS.register("torchtitan")
class Torchtitan(Form):
    """Steps."""

    name = "torchtitan"
    all_ranks = True
    markers = (b"step:",)

    def read(self, line: Line) -> Iterable[Reading]:
        """A line without its rate still tells that one more rank printed this step."""
        head = _HEAD.search(line.text)
        if head is None:
            return ()
        fields = Fields(dict(_PAIR.findall(line.text[head.end() :])))
        tokens = fields.number("tps", "wps")
        detail = known(
            basis="stamps",
            saves="included",
            loss=fields.number("loss"),
            tokens_base="per_gpu" if tokens is not None else None,
        )
        detail = with_nan(detail, fields.nan)
        step = Reading("step", int(head[1]), tokens_per_s=tokens, detail=detail)
        is_whole = "tps" in fields or "wps" in fields
        return [step] if is_whole else [TORN, step]
