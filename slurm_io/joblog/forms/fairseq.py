"""fairseq: ``… | train_inner | epoch 001:    100 / 1000 loss=8.9, wps=31000, ups=4.5, …``.

In three log formats: ``simple`` and ``tqdm`` (``key=value``), ``json`` (strings), and the older
``| epoch 010  2000 / 8223 loss=1.27 (1.50), wps=962, wpb=908, bsz=32``. Words are tokens, those of
all workers; the step time is words a batch by words/s, else one by updates/s. Figures are means
over the logging interval.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_io.joblog.figures import Fields, ratio
from slurm_io.joblog.forms.base import FORMS, Form, known, with_nan
from slurm_io.joblog.model import Line, Reading

_PAIR = re.compile(r"\b(\w{1,40})=([^,\s\])]{1,40})", re.ASCII)
_JSON_PAIR = re.compile(r'"(\w{1,40})": "?([^",}\s]{1,40})"?', re.ASCII)
_OF_EPOCH = re.compile(r"\bepoch ([0-9]{1,9}):? +([0-9]{1,15}) / ([0-9]{1,15}) ", re.ASCII)


@FORMS.register("fairseq")
class Fairseq(Form):
    """Lines of the training loop; those of validation and of whole epochs have other keys."""

    name = "fairseq"
    markers = (b"num_updates=", b'"num_updates"', b"wps=")
    has_stamps = False

    def read(self, line: Line) -> Iterable[Reading]:
        """One step a line."""
        pattern = _JSON_PAIR if '"num_updates"' in line.text else _PAIR
        fields = Fields(dict(pattern.findall(line.text)))
        if "wps" not in fields:
            return ()
        epoch, of_epoch = _epoch(line.text)
        step = fields.whole("num_updates")
        if step is None:
            step = of_epoch
        tokens_per_s = fields.number("wps")
        step_time_s = ratio(fields.number("wpb"), tokens_per_s)
        if step_time_s is None or step_time_s <= 0:
            step_time_s = ratio(1.0, fields.number("ups"))
        batch = fields.number("bsz")
        detail = known(
            basis="interval",
            saves="included",
            epoch=epoch,
            loss=fields.number("loss"),
            lr=fields.number("lr"),
            global_batch=batch,
            tokens_per_step=fields.number("wpb"),
            tokens_base="total" if tokens_per_s is not None else None,
        )
        detail = with_nan(detail, fields.nan)
        samples_per_s = ratio(batch, step_time_s)
        return [Reading("step", step, step_time_s, samples_per_s, tokens_per_s, detail=detail)]


def _epoch(text: str) -> tuple[int | None, int | None]:
    """(epoch, step since the start) of the older lines; epochs count from 1."""
    found = _OF_EPOCH.search(text)
    if found is None:
        return None, None
    epoch, n, total = (int(group) for group in found.groups())
    return epoch, max(0, epoch - 1) * total + n
