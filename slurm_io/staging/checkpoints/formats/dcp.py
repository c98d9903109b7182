"""torch.distributed.checkpoint: a folder of ``__<rank>_<n>.distcp`` files and ``.metadata``."""

from __future__ import annotations

from slurm_io.staging.checkpoints.dcp_parts import is_distributed, judge_parts
from slurm_io.staging.checkpoints.formats.base import FORMATS
from slurm_io.staging.checkpoints.found import Found
from slurm_io.staging.checkpoints.model import Judged


@FORMATS.register("dcp")
class Dcp:
    """See :mod:`slurm_io.staging.checkpoints.dcp_parts`."""

    name = "dcp"
    order = 40

    def recognises(self, found: Found) -> bool:
        """By the names in the folder."""
        return found.is_folder and is_distributed(found)

    def judge(self, found: Found) -> Judged:
        """By ``.metadata`` and sizes."""
        return judge_parts(found)
