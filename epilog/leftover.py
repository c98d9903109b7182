"""What a killed sampler left in the job's rings, read by root: ``python -m … SPOOL``, a child.

The rings are the user's files, so a reading may take long or never end: the finisher gives this
process a time limit. The runtime folder is root's; it is entered by descriptor, so that rings of
the job's next run, which may be put in its place at any moment, are never taken for these.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from slurm_io.errors import HostError, SlurmIoError
from slurm_io.filesystems.mounts import read_mounts
from slurm_io.host.root_folders import read_file, trusted_folder
from slurm_io.sampler.leftover import note_unread, take_over
from slurm_io.sampler.main import read_spec

NICENESS = 19


def main(arguments: Sequence[str]) -> int:
    """Read the rings of one job on one node; 0, or the code of what went wrong."""
    (spool,) = map(Path, arguments)
    os.nice(NICENESS)
    os.umask(0o077)
    try:
        read_rings(spool)
    except SlurmIoError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def read_rings(spool: Path) -> None:
    """What is left into `spool`; in its meta.json the reason, where there are no rings any more.

    Raises StoreError.
    """
    spec = read_spec(spool, None)
    rings = Path(spec.ring_dir)
    try:
        with trusted_folder(str(rings.parent)) as runtime:
            if read_file(runtime, "restart") != f"{spec.job.restart}\n".encode():
                raise HostError("the job's next run had its place already")
            _refuse_mounts(rings)
            take_over(spool, Path(f"/proc/self/fd/{runtime}") / rings.name)
    except HostError as error:
        note_unread(spool, str(error))


def _refuse_mounts(rings: Path) -> None:
    """HostError where something is mounted there. By the list of mounts: a user's own FUSE file
    system may never answer, and who waits for it cannot be killed."""
    place = os.path.realpath(rings.parent) + f"/{rings.name}"
    for mount in read_mounts():
        if f"{mount.mount_point}/".startswith(f"{place}/"):
            raise HostError(f"a {mount.fstype} file system is mounted over them")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
