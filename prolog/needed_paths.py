"""What a job stands on, on this node: the folder of its dataset and the spool.

The checks of mounts, arrays and kernel log ask what serves these paths.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from slurm_io.prolog.checks.base import CheckContext


class NeededPath(NamedTuple):
    """One path. `label` says to people what it is. `writable`: it must be."""

    label: str
    path: str
    writable: bool = False


def needed_paths(context: CheckContext) -> list[NeededPath]:
    """The spool, and the dataset's folder when the job named a dataset that this site has.

    A path that the user chose is none of these: he could lead root to a dead mount, or have its old
    trouble drain the node. The checks that run as the user look at it.
    """
    needed = [NeededPath("spool", context.config.spool_dir, writable=True)]
    if context.spec.dataset is None or context.spec.dataset.startswith("/"):
        return needed
    from slurm_io.errors import SpecError
    from slurm_io.staging.datasets import Names, place_of

    names = Names(context.node, context.user, context.job)
    try:
        place = place_of(context.config, context.spec, names)
    except SpecError:
        return needed  # the dataset's own check says what is wrong
    if place is not None and place.path.startswith("/"):
        needed.append(NeededPath(f"dataset {place.name}", place.path))
    return needed


def resolve(paths: Iterable[str], timeout_s: float, uid: int, proc_root: str) -> dict[str, str]:
    """Path -> path without symbolic links, found out in a child that may hang.

    For root it ends where user `uid` or other users decide what follows: the mount it is on up to
    there is an admin's. A path that does not answer in time stands for itself: its text still tells
    the mount it is on unless a link leads elsewhere.
    """
    import time

    from slurm_io.host.probe import Probe

    wanted = list(dict.fromkeys(paths))
    found = {path: path for path in wanted}
    running = Probe([(_real_path, (path, uid, proc_root)) for path in wanted], timeout_s)
    while wanted and not running.finished:
        running.wait(max(0.0, running.deadline_s - time.monotonic()))
        running.poll()
    for path, answer in zip(wanted, running.answers, strict=True):
        if answer is not None and answer.state == "ok":
            found[path] = answer.value
    return found


def _real_path(path: str, uid: int, proc_root: str) -> str:
    import os

    if os.geteuid() != 0:
        return os.path.realpath(path)
    from slurm_io.filesystems.own_ground import admins_path, users_mount_points

    return admins_path(path, uid, users_mount_points(proc_root))
