"""Judges the default layout of a checkpoint directory by rank count and shard size.

Two habits, and what is right for one is wrong for the other:

* *one file per rank* (torch.save per rank, DCP, DeepSpeed, Megatron): the servers spread the files;
  1 to 4 stripes each, more only multiplies objects (ranks x stripes) and locks;
* *one shared file* (a rank 0 save of a large model, MPI-IO, HDF5): about one stripe for each node
  that writes, cut to the policy's most and to the active OSTs.

Which of them a job does is not known before it runs. Unless it is said, a template is wrong only
when it is wrong for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from slurm_io.filesystems.layout import commands
from slurm_io.filesystems.layout.model import DirectoryDefault, template_width
from slurm_io.filesystems.layout.policy import GIB, Finding, Thresholds

Habit = Literal["unknown", "file-per-rank", "shared-file"]
MOST_PER_RANK = 4


@dataclass(frozen=True)
class Writers:
    """Who writes a checkpoint. `ranks` and `shard_bytes` (one rank's share) None when not known."""

    nodes: int
    ranks: int | None = None
    shard_bytes: int | None = None
    habit: Habit = "unknown"


def advised_per_rank(writers: Writers, active_osts: int | None) -> int:
    """Stripes of each rank's file: 1 for small shards or when the ranks alone fill the OSTs."""
    if writers.shard_bytes is not None and writers.shard_bytes < GIB:
        return 1
    if active_osts is None or writers.ranks is None:
        return 1
    return min(max(active_osts // max(writers.ranks, 1), 1), MOST_PER_RANK)


def advised_shared(writers: Writers, active_osts: int | None, thresholds: Thresholds) -> int:
    """Stripes of the one file all nodes write."""
    most = min(thresholds.most_osts, active_osts or thresholds.most_osts)
    return max(1, min(writers.nodes, most))


def judge_checkpoints(
    path: str,
    default: DirectoryDefault,
    writers: Writers,
    active_osts: int | None = None,
    thresholds: Thresholds | None = None,
) -> Finding | None:
    """None when the template fits at least one habit the job may have."""
    limits = thresholds or Thresholds()
    per_rank = advised_per_rank(writers, active_osts)
    shared = advised_shared(writers, active_osts, limits)
    width = default_width(default, active_osts)
    if width is None or _is_progressive(default):
        return None
    if writers.habit == "shared-file":
        return _narrow(path, width, shared, writers)
    most = MOST_PER_RANK if writers.habit == "file-per-rank" else max(MOST_PER_RANK, shared)
    if width > most and writers.ranks != 1:
        return _wide(path, width, per_rank, shared, writers)
    return None


def default_width(default: DirectoryDefault, active_osts: int | None) -> int | None:
    """OSTs a large new file takes; None when it is all of them and their number is not known."""
    if default.layout is None or default.is_file_system_default:
        return 1
    return template_width(default.layout, active_osts)


def _is_progressive(default: DirectoryDefault) -> bool:
    """Small files stay narrow, large ones grow wide: good for both habits."""
    layout = default.layout
    return (
        layout is not None
        and layout.kind == "composite"
        and len(layout.components) > 1
        and layout.components[0].stripe_count in range(MOST_PER_RANK + 1)
    )


def _wide(path: str, width: int, per_rank: int, shared: int, writers: Writers) -> Finding:
    files = "each rank's file" if writers.ranks is None else f"each of {writers.ranks} ranks' files"
    also = "" if writers.habit == "file-per-rank" else f"; one file for all of them: {shared}"
    return Finding(
        "default-wide",
        f"{commands.printable(path)}: {files} would take {width} OSTs: many objects and locks for"
        f" nothing. Advised for a file per rank: {per_rank}{also}",
        path,
        {"default_osts": width, "advised_per_rank": per_rank, "advised_shared": shared},
        (commands.set_default(path, per_rank),),
    )


def _narrow(path: str, width: int, advice: int, writers: Writers) -> Finding | None:
    if width * 2 >= advice:
        return None
    return Finding(
        "default-narrow",
        f"{commands.printable(path)}: one file written by {writers.nodes} nodes would lie on"
        f" {width} OST{'s' if width != 1 else ''}: advised are {advice}",
        path,
        {"default_osts": width, "advised_shared": advice},
        (commands.set_default(path, advice),),
    )
