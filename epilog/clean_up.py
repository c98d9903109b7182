"""Folders that are done with. A ring folder was the user's and may hold anything, however deep.

So trees are left to rm(1), which follows no link and needs no recursion of ours, and only after
they were moved aside under a name in a folder of root's.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from slurm_io.epilog.case import lock_name
from slurm_io.epilog.stop_sampler import is_at_work
from slurm_io.epilog.which_run import running_restart
from slurm_io.errors import HostError
from slurm_io.filesystems.mounts import read_mounts
from slurm_io.host.root_folders import child_folder, trusted_folder
from slurm_io.host.run import find_tool, run

RM_TIMEOUT_S = 60.0
OLD_PREFIX = ".old-"  # as the prolog names what it sets aside
RING = "ring"
MNT_DETACH, UMOUNT_NOFOLLOW = 2, 8


def remove_spool(job_folder: int, spool: Path) -> None:
    """Remove a delivered node folder, its lock, and the job's folder when it is the last one."""
    aside = spool.with_name(f".{spool.name}.delivered")
    os.rename(spool.name, aside.name, src_dir_fd=job_folder, dst_dir_fd=job_folder)
    remove_tree(aside)
    os.unlink(lock_name(spool.name), dir_fd=job_folder)
    with contextlib.suppress(OSError):  # other nodes' folders in a shared spool
        spool.parent.rmdir()


def remove_tree(path: Path) -> None:
    """``rm -rf`` within one file system. Raises HostError."""
    tool = find_tool("rm")
    if tool is None:
        raise HostError("no rm(1) on this machine: the spool is not emptied")
    run([tool, "-rf", "--one-file-system", "--", str(path)], RM_TIMEOUT_S, check=True)


def set_aside_runtime(runtime: str, restart: int, log: Callable[[str], None]) -> None:
    """Take the runtime folder of this restart, never a newer one's, out of the way."""
    path = Path(runtime)
    try:
        if running_restart(str(path.parent.parent), path.parent.name, path.name) != restart:
            return
        with trusted_folder(str(path.parent)) as node:
            aside = f"{OLD_PREFIX}{path.name}-{restart}.{os.getpid()}"
            os.rename(path.name, aside, src_dir_fd=node, dst_dir_fd=node)
    except (HostError, OSError) as error:
        log(f"runtime folder {runtime} not set aside: {error}")


def remove_set_aside(runtime: str, log: Callable[[str], None]) -> None:
    """Remove all runtime folders of this node that were set aside; one that resists holds up none.

    Of other jobs too: a user may have left more in one than rm(1) could remove in its time. It is
    the last thing a finisher does, so that it delays nobody's report.
    """
    parent = Path(runtime).parent
    try:
        with trusted_folder(str(parent)) as node:
            names = [name for name in os.listdir(node) if name.startswith(OLD_PREFIX)]
    except (HostError, OSError) as error:
        log(f"runtime folders below {parent} not removed: {error}")
        return
    for name in names:
        try:
            _uncover(parent / name / RING)
            remove_tree(parent / name)
        except HostError as error:
            log(f"runtime folder {parent / name} not removed: {error}")


def _uncover(ring: Path) -> None:
    """Detach what a user mounted over his ring folder. Raises HostError where he mounted deeper in.

    Nothing is touched that is mounted there: it may never answer. Deeper in, a user decides where a
    path leads, and root unmounts nothing that he names.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    points = [mount.mount_point for mount in read_mounts()]
    for _ in range(points.count(str(ring))):
        libc.umount2(os.fsencode(ring), MNT_DETACH | UMOUNT_NOFOLLOW)
    if any(mount.mount_point.startswith(f"{ring.parent}/") for mount in read_mounts()):
        raise HostError("a user's file system is mounted in it: umount -l it")


def sweep(spool_dir: Path, retention_s: float, now_s: float, log: Callable[[str], None]) -> None:
    """Remove node folders that could not be delivered for `retention_s`."""
    for job_folder in spool_dir.glob("*/*"):
        with contextlib.suppress(HostError, OSError):
            _sweep_job(job_folder, now_s - retention_s, log)


def _sweep_job(job_folder: Path, before_s: float, log: Callable[[str], None]) -> None:
    with trusted_folder(str(job_folder)) as folder:
        for name in os.listdir(folder):
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(facts.st_mode) or facts.st_mtime >= before_s:
                continue
            if not _has_sampler(folder, name):
                remove_tree(job_folder / name)
                log(f"{job_folder / name} removed: too old, never delivered")
    with contextlib.suppress(OSError):
        job_folder.rmdir()


def _has_sampler(job_folder: int, name: str) -> bool:
    folder = child_folder(job_folder, name, "spool")
    try:
        return is_at_work(folder)
    finally:
        os.close(folder)
