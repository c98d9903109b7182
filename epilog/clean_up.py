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
from slurm_io.host.root_folders import child_folder, trusted_folder
from slurm_io.host.run import find_tool, run

RM_TIMEOUT_S = 60.0


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


def remove_runtime(runtime: str, restart: int, log: Callable[[str], None]) -> None:
    """Remove the runtime folder of this restart, never a newer one's, and all moved aside.

    Those of other jobs too: a user may have left more in one than rm(1) could remove in its time.
    """
    path = Path(runtime)
    try:
        with trusted_folder(str(path.parent)) as node:
            names = [name for name in os.listdir(node) if name.startswith(".old-")]
            if running_restart(str(path.parent.parent), path.parent.name, path.name) == restart:
                aside = f".old-{path.name}-{restart}.{os.getpid()}"
                os.rename(path.name, aside, src_dir_fd=node, dst_dir_fd=node)
                names.append(aside)
        for name in names:
            remove_tree(path.parent / name)
    except (HostError, OSError) as error:
        log(f"runtime folder {runtime} not removed: {error}")


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
