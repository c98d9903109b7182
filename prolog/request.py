"""The job's wishes from all sources that reach a prolog, and what to tell the user about them."""

from __future__ import annotations

from slurm_io.config import Config
from slurm_io.errors import SpecError
from slurm_io.records import dataclass
from slurm_io.slurm.environment import HookJob
from slurm_io.spec import JobSpec, merge, parse_request, parse_words


@dataclass(frozen=True)
class Request:
    """Merged wishes; `complaints` are lines for the user about sources that were left out."""

    spec: JobSpec
    complaints: tuple[str, ...]


def read_request(job: HookJob, config: Config) -> Request:
    """Partition defaults < comment < extra < SPANK. A malformed source counts as absent."""
    allow_paths = config.policy.allow_dataset_paths
    layers = [config.partitions.get(job.identity.partition or "", JobSpec())]
    complaints = []
    for text, is_request in ((job.comment, False), (job.extra, False), (job.spank, True)):
        try:
            read = parse_words if is_request else parse_request
            layers.append(read(text, allow_paths) or JobSpec())
        except SpecError as error:
            complaints.append(f"{error}. These settings are ignored.")
    return Request(merge(layers), tuple(complaints))
