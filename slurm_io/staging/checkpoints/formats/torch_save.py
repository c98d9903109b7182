"""torch.save: one file, an archive whose table of contents comes last. Lightning's too."""

from __future__ import annotations

from slurm_io.staging.checkpoints.file_checks import judge_files, kind_of
from slurm_io.staging.checkpoints.formats.base import FORMATS
from slurm_io.staging.checkpoints.found import Found
from slurm_io.staging.checkpoints.model import Judged


@FORMATS.register("torch_save")
class TorchSave:
    """Files that were named by the job or bear the same name but for numbers."""

    name = "torch_save"
    order = 70

    def recognises(self, found: Found) -> bool:
        """By the first bytes."""
        if found.is_folder:
            return False
        return any(kind_of(found, name) in ("torch", "old torch") for name in found.files)

    def judge(self, found: Found) -> Judged:
        """By the archive's end."""
        return judge_files(found, found.files)
