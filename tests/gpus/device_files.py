"""Device files of GPUs that are not there: nobody can open them, all can see what they are."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

_MAJORS = {"nvidia": 195, "renderD": 226}


def device_file(folder: Path, name: str) -> Path:
    """``nvidia3`` or ``renderD129`` below a folder; skips where no device file may be made."""
    path = folder / "dev" / name
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        kind = name.rstrip("0123456789")
        device = os.makedev(_MAJORS[kind], int(name.removeprefix(kind)))
        try:
            os.mknod(path, stat.S_IFCHR | 0o600, device)
        except PermissionError:
            pytest.skip("device files cannot be made here")
    return path
