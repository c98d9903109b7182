"""What a file system has left, and what of a checkpoint folder or dataset is there already.

Each function touches paths that may hang and is called in a child that can be killed; answers are
plain dictionaries: ``real`` (the existing folder measured), ``device``, ``statvfs`` and more.
"""

from __future__ import annotations

import os
import time
from typing import Any

from slurm_io.errors import SlurmIoError
from slurm_io.filesystems.capacity import read_statvfs


def measure(path: str) -> dict[str, Any]:
    """statvfs of `path`, or of the nearest folder above that exists. Raises OSError; may hang."""
    existing = path
    while True:
        try:
            device = os.stat(existing).st_dev
            break
        except (FileNotFoundError, NotADirectoryError):
            existing = os.path.dirname(existing)
    real = os.path.realpath(existing)
    return {"real": real, "device": device, "statvfs": read_statvfs(existing)}


def measure_checkpoints(path: str, search_s: float) -> dict[str, Any]:
    """The same, with the newest complete checkpoint below."""
    from slurm_io.prolog.newest_checkpoint import find_newest  # only where there is a ckpt

    answer = measure(path)
    try:
        found = find_newest(path, time.monotonic() + search_s)
    except FileNotFoundError:
        return answer | {"newest": None, "present": 0, "cut": ""}
    except OSError as error:
        return answer | {"newest": None, "present": 0, "cut": error.strerror or "unreadable"}
    newest = tuple(found.newest) if found.newest else None
    return answer | {"newest": newest, "present": found.present, "cut": found.cut}


def measure_dataset(
    path: str, manifest: str, search_s: float, count_blocks: bool
) -> dict[str, Any]:
    """The same, with the dataset's size and what of it is there. `count_blocks`: a file counts with
    what was written of it, not with its size."""
    from slurm_io.filesystems.bounded_walk import BoundedWalk
    from slurm_io.staging.manifest.files import read_header  # only where there is a dataset

    answer: dict[str, Any] = measure(path)
    try:
        header = read_header(manifest)
    except SlurmIoError as error:
        return answer | {"total_bytes": None, "reason": str(error)}
    there_bytes = there_files = 0
    cut = ""
    try:
        walk = BoundedWalk(path, time.monotonic() + search_s, max(2 * header.file_count, 1000))
        for found in walk:
            try:
                stat = found.entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # gone meanwhile: the other files count all the same
                continue
            written_bytes = stat.st_blocks * 512 if count_blocks else stat.st_size
            there_bytes += min(stat.st_size, written_bytes)
            there_files += 1
        cut = walk.cut
    except FileNotFoundError:
        pass
    except OSError as error:
        cut = error.strerror or "unreadable"
    return answer | {
        "total_bytes": header.total_bytes,
        "total_files": header.file_count,
        "there_bytes": there_bytes,
        "there_files": there_files,
        "reason": cut or "the manifest does not say how large it is",
        "cut": cut,
    }
