"""Checkpoints for tests: real ones of torch, small ones by hand for what is not installed here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

from slurm_io.staging.checkpoints.look_in import look_in

HOUR_S = 3600


def saves_in(folder: Path, *named: dict[str, Any]) -> list[dict[str, Any]]:
    """What a look at `folder` says of its saves, the newest first."""
    saves: list[dict[str, Any]] = look_in(str(folder), named, time.monotonic() + 60)["saves"]
    return saves


def only_save(folder: Path, *named: dict[str, Any]) -> dict[str, Any]:
    """The one save there is."""
    [save] = saves_in(folder, *named)
    return save


def seen(path: Path, returned_ns: int | None = None, longest_s: float = 1.0) -> dict[str, Any]:
    """As `wanted` tells of a path that the hook saw saved."""
    return {"path": str(path), "seen_ns": returned_ns or 1, "returned_ns": returned_ns,
            "longest_s": longest_s}  # fmt: skip


def grow_old(folder: Path, age_s: float = HOUR_S) -> Path:
    """All below `folder` as if written `age_s` ago."""
    then = time.time() - age_s
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (then, then), follow_symlinks=False)
    return folder


def cut(path: Path, lost: int) -> None:
    """Take the last `lost` bytes away."""
    os.truncate(path, path.stat().st_size - lost)


def zero_end(path: Path, count: int) -> None:
    """Zeros in place of the last `count` bytes, as after a crash of the node."""
    with path.open("r+b") as file:
        file.seek(-count, os.SEEK_END)
        file.write(bytes(count))


def archive(path: Path, payload: bytes = b"x" * 1000) -> Path:
    """An archive with the records of torch.save."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as made:
        made.writestr(f"{path.stem}/data.pkl", b"\x80\x02}q\x00.")
        made.writestr(f"{path.stem}/data/0", payload)
    return path


def shard(path: Path, tensors: dict[str, int]) -> Path:
    """A safetensors file; bytes of each tensor."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header, end = {}, 0
    for name, size in tensors.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(end))
    return path


def in_python(code: str, *arguments: str) -> int:
    """Run `code` in a process that may die; its exit code."""
    argv = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    return subprocess.run(argv, check=False, capture_output=True, timeout=120).returncode
