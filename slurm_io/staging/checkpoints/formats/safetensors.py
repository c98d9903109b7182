"""safetensors: one file, whose header says how long it is."""

from __future__ import annotations

from slurm_io.staging.checkpoints.file_checks import SAFETENSORS_SUFFIX, judge_files
from slurm_io.staging.checkpoints.formats.base import FORMATS
from slurm_io.staging.checkpoints.found import Found
from slurm_io.staging.checkpoints.model import Judged


@FORMATS.register("safetensors")
class Safetensors:
    """Files named ``*.safetensors``; with an index beside them see :mod:`.huggingface`."""

    name = "safetensors"
    order = 60

    def recognises(self, found: Found) -> bool:
        """By the suffix."""
        return not found.is_folder and any(
            name.endswith(SAFETENSORS_SUFFIX) for name in found.files
        )

    def judge(self, found: Found) -> Judged:
        """By header and size. The format has no checksum."""
        return judge_files(found, found.files)
