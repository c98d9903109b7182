"""What a check is told, with a dataset and a checkpoint folder of this test."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slurm_io.config import Config, DatasetConfig
from slurm_io.prolog.checks.base import CheckContext
from slurm_io.spec import JobSpec

_MOUNT = "{number} 1 0:{number} / {point} rw - {fstype} {source} rw\n"


def context_for(
    dataset: DatasetConfig | None = None,
    *,
    spec: JobSpec | None = None,
    own: Mapping[str, Any] | None = None,
    leader: bool = True,
    proc_root: Path | str = "/proc",
    budget_s: float = 5.0,
) -> CheckContext:
    """A context of user and node of this process; `dataset` is registered as ``c4``."""
    return CheckContext(
        node="node1",
        config=Config(datasets={"c4": dataset} if dataset else {}),
        spec=spec or JobSpec(dataset="c4" if dataset else None),
        budget_s=budget_s,
        user="user1",
        uid=os.getuid(),
        gid=os.getgid(),
        leader=leader,
        own=own or {},
        proc_root=os.fspath(proc_root),
    )


def proc_with_mounts(folder: Path, **fstypes: tuple[Path | str, str]) -> Path:
    """A /proc whose mountinfo says which types lie where: ``name=(mount point, fstype)``."""
    lines = "1 0 0:1 / / rw - ext4 /dev/root rw\n"
    for number, (point, fstype) in enumerate(fstypes.values(), 2):
        lines += _MOUNT.format(number=number, point=point, fstype=fstype, source="none")
    (folder / "self").mkdir(parents=True)
    (folder / "self" / "mountinfo").write_text(lines)
    return folder
