"""PyTorch Lightning: the bar of an epoch (tqdm or rich), and what ModelCheckpoint says.

``Epoch 3:  21%|██   | 4/18 [00:17<01:02,  4.47s/it, loss=10, v_num=7]``: counts batches, and with
those of validation in older versions. ``Epoch 0, global step 9000: 'val_loss' reached 7.04238 …,
saving model to '…'`` may stand on the bar's own line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_io.joblog.bar_reading import epoch_of, progress
from slurm_io.joblog.forms.base import FORMS, Form
from slurm_io.joblog.model import Bar, Line, Reading

_SAVING = re.compile(r"Epoch [0-9]{1,9}, (?:global )?step ([0-9]{1,15}): ", re.ASCII)


@FORMS.register("lightning")
class Lightning(Form):
    """Bars of epochs, saves."""

    name = "lightning"
    markers = (b"saving model to",)
    has_stamps = False

    def read(self, line: Line) -> Iterable[Reading]:
        """A save begins; how long it takes is not printed."""
        found = _SAVING.search(line.text)
        return [Reading("ckpt_save", int(found[1]))] if found is not None else ()

    def bar(self, bar: Bar) -> Reading | None:
        """A bar called Epoch with a version number, or rich's."""
        epoch = epoch_of(bar)
        is_ours = bar.is_rich or "v_num" in bar.postfix
        if epoch is None or not is_ours or "consumed_samples" in bar.postfix:
            return None
        step = None if bar.total is None else epoch * bar.total + bar.n
        return progress(bar, step, epoch=epoch, unit="batch")
