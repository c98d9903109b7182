"""Which GPUs are the job's: who says so, in the order in which they are believed."""

from __future__ import annotations

from slurm_io.collectors.base import Context
from slurm_io.gpus.evidence import allowed_by, open_files_of_all
from slurm_io.gpus.model import Files, Wish
from slurm_io.host.job_cgroups import resolve_cgroup
from slurm_io.host.read import read_optional_text
from slurm_io.slurm.gpu_words import ALL, parse_words

BY_OPEN_FILES = "device files that the job's processes have open"


def wish_of(context: Context) -> Wish | str:
    """The GPUs to read, or in words why none. Raises SlurmError for words that are none.

    What whoever started the sampler found comes first (slurmd's Prolog, or the environment of a
    user's own run), then what the kernel says. The environment of a job is not looked at here: in a
    sampler that the Prolog started it would be a user's word.
    """
    if context.gpus == ALL:
        return Wish("all that can be seen here", is_known=False)
    if context.gpus:
        words = parse_words(context.gpus.partition("=")[2])
        return Wish(context.gpus, words) if words else f"the job has no GPU: {context.gpus}"
    allowed = _allowed_by_control_group(context)
    if allowed.nvidia:
        return Wish("device files that the job's control group allows", files=allowed)
    files = open_files_of_job(context)
    if not files.nvidia and not files.render:
        return "this job was given no GPU, and none of its processes has one open"
    return Wish(BY_OPEN_FILES, files=files)


def open_files_of_job(context: Context) -> Files:
    """Of its ranks first, then of its other processes."""
    members = sorted(context.members(), key=lambda member: member.role != "rank")
    return open_files_of_all(context.proc_root, [member.pid for member in members])


def _allowed_by_control_group(context: Context) -> Files:
    found: set[int] = set()
    for path in context.cgroup_paths():
        for group in resolve_cgroup(context.sys_root, path):
            folder = group.folders.get("devices")
            text = None if folder is None else read_optional_text(folder / "devices.list")
            found |= allowed_by(text or "")
    return Files(nvidia=frozenset(found))
