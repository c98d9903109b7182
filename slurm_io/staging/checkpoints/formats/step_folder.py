"""A folder for each step with files of torch.save or safetensors in it, or distributed parts in
folders of their own, in no layout that is known."""

from __future__ import annotations

from slurm_io.staging.checkpoints.file_checks import judge_files, kind_of
from slurm_io.staging.checkpoints.formats.base import FORMATS
from slurm_io.staging.checkpoints.found import Found
from slurm_io.staging.checkpoints.indexes import judge_indexes
from slurm_io.staging.checkpoints.model import Judged, State
from slurm_io.staging.checkpoints.nested_parts import has_parts_below, judge_below, merged


@FORMATS.register("step_folder")
class StepFolder:
    """The last resort for folders: what is missing in one cannot be told, only what is torn."""

    name = "step_folder"
    order = 90

    def recognises(self, found: Found) -> bool:
        """By any file of a known kind."""
        if not found.is_folder:
            return False
        return has_parts_below(found) or any(kind_of(found, one) != "other" for one in found.files)

    def judge(self, found: Found) -> Judged:
        """Each file by itself, and the shards of an index."""
        said = merged(judge_files(found, found.files), judge_below(found))
        shards, unknown = judge_indexes(found)
        if shards:
            return Judged("broken", (*shards, *said.problems), (*unknown, *said.notes))
        state: State = "unknown" if unknown and said.state == "whole" else said.state
        return Judged(state, said.problems, (*unknown, *said.notes))
