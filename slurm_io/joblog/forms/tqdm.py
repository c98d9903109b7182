"""Bars of training loops that no other form knows: a plain ``for batch in tqdm(loader)``.

``100%|████| 194/194 [45:18<00:00, 14.02s/it]`` without a name, or called Epoch, Train, Training or
Steps. Bars with other names (Map, Loading checkpoint shards, Validation) are no training.
"""

from __future__ import annotations

import re

from slurm_io.joblog.bar_reading import epoch_of, progress
from slurm_io.joblog.forms.base import FORMS, Form
from slurm_io.joblog.model import Bar, Reading

_NAMES = re.compile(r"(?:train(?:ing)?|steps?|iterations?)?(?:[ :(\[].{0,80})?", re.IGNORECASE)


@FORMS.register("tqdm")
class Tqdm(Form):
    """Its name puts it behind the forms that know whose bar it is."""

    name = "tqdm"
    has_stamps = False

    def bar(self, bar: Bar) -> Reading | None:
        """Within an epoch of a loop we do not know, the count is no step number."""
        epoch = epoch_of(bar)
        if epoch is not None:
            return progress(bar, None, epoch=epoch, step_in_epoch=bar.n)
        return progress(bar, bar.n) if _NAMES.fullmatch(bar.description) else None
