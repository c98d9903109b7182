"""Where a job's folders lie on a node (docs/development/contracts.md, 3 and 5).

Spool ``<spool>/<cluster>/<job>.<restart>/<node>/`` and runtime folder
``<runtime>/<node>/<job>/``; every component has passed :mod:`slurm_io.slurm.environment`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from slurm_io.host.root_folders import child_folder, trusted_folder
from slurm_io.records import dataclass
from slurm_io.slurm.environment import HookJob

SPOOL_UPPER_MODE = 0o711  # the user may pass to what delivery gives him, and list nothing
SPOOL_NODE_MODE = 0o700


@dataclass(frozen=True)
class JobPlaces:
    """Absolute paths of one job on one node."""

    spool: str
    runtime: str

    @property
    def ring(self) -> str:
        """Folder that the job's processes put their rings into."""
        return f"{self.runtime}/ring"


def places_of(job: HookJob, spool_dir: str, runtime_dir: str) -> JobPlaces:
    """The job's folders below the site's two roots."""
    identity = job.identity
    return JobPlaces(
        spool=f"{spool_dir}/{identity.cluster}/{identity.key()}/{job.node}",
        runtime=f"{runtime_dir}/{job.node}/{identity.job}",
    )


@contextlib.contextmanager
def spool_folder(job: HookJob, spool_dir: str, create: bool) -> Iterator[int]:
    """Descriptor of the node's spool folder, every level checked. Raises HostError."""
    identity = job.identity
    upper = SPOOL_UPPER_MODE if create else None
    with contextlib.ExitStack() as stack:
        descriptor = stack.enter_context(trusted_folder(spool_dir, create, SPOOL_UPPER_MODE))
        for name, mode in (
            (identity.cluster, upper),
            (identity.key(), upper),
            (job.node, SPOOL_NODE_MODE if create else None),
        ):
            descriptor = child_folder(descriptor, name, spool_dir, mode)
            stack.callback(os.close, descriptor)
        yield descriptor
