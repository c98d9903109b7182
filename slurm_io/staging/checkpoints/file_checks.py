"""One file of a checkpoint: is it an archive of torch.save or a safetensors file, and whole?"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from slurm_io.staging import safetensors
from slurm_io.staging.beneath import read_at
from slurm_io.staging.checkpoints import zip_end
from slurm_io.staging.checkpoints.found import Found
from slurm_io.staging.checkpoints.model import Judged, Problem, sum_up

TORCH_SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".tar")
SAFETENSORS_SUFFIX = ".safetensors"
MOST_HEADER_BYTES = 16 * 2**20  # the format allows 100 MB, which takes Python a GB to read
_STUMP_SUFFIXES = (".pt", ".pth", ".ckpt")  # other programs leave empty .bin and .tar files
_MANY_ARCHIVES = ".distcp"  # one after the other: only .metadata knows where they end
_HEAD_BYTES = 4096
# The first value of torch.save's older format: a pickle of its magic number.
_OLD_TORCH = bytes.fromhex("8002 8a0a 6cfc9c46f9206aa85019 2e")
_TORCH_RECORDS = (b"/data.pkl", b"/version", b"/byteorder", b"/.format_version", b"/.data/")
_SPARSE_BYTES = 2**20

Kind = Literal["torch", "old torch", "safetensors", "other"]


@dataclass(frozen=True)
class Checked:
    """`problem` in words; `unknown` says why nothing can be told; both None: whole."""

    problem: str | None = None
    unknown: str | None = None


def kind_of(found: Found, name: str) -> Kind:
    """By the first bytes; an empty or zeroed file by its name. Raises OSError."""
    if name.endswith(SAFETENSORS_SUFFIX):
        return "safetensors"
    if name.endswith(_MANY_ARCHIVES):
        return "other"
    head = found.read(name, _HEAD_BYTES)
    is_named_so = name.endswith(TORCH_SUFFIXES)
    if head.startswith(_OLD_TORCH):
        return "old torch"
    if head.startswith(zip_end.START):
        return "torch" if is_named_so or any(word in head for word in _TORCH_RECORDS) else "other"
    is_stump = not any(head) or zip_end.START.startswith(head)
    return "torch" if name.endswith(_STUMP_SUFFIXES) and is_stump else "other"


def check(found: Found, name: str, kind: Kind) -> Checked:
    """What its size, header and end tell. Raises OSError."""
    if found.files[name].size_bytes == 0:
        return Checked(problem="empty")
    if kind == "old torch":
        return Checked(unknown="torch.save's older format has no end that could be looked at")
    with found.open(name) as fd:
        if kind == "safetensors":
            return _check_safetensors(fd)
        return Checked(problem=zip_end.what_is_wrong(fd))


def judge_files(found: Found, names: Iterable[str]) -> Judged:
    """Each file that is of a known kind; others are left alone. Raises OSError."""
    problems: list[Problem] = []
    unknown: list[str] = []
    notes: list[str] = []
    ordered = sorted(names)
    for place, name in enumerate(ordered):
        if time.monotonic() > found.deadline_s:
            unknown.append(f"no time was left for {len(ordered) - place} files")
            break
        kind = kind_of(found, name)
        if kind == "other":
            continue
        said = check(found, name, kind)
        if said.problem:
            problems.append(Problem(name, said.problem))
        elif said.unknown:
            unknown.append(f"{name}: {said.unknown}")
        elif _is_sparse(found, name):
            notes.append(f"{name}: fewer blocks than bytes (sparse, compressed, or moved away)")
    return sum_up(problems, unknown, notes)


def _is_sparse(found: Found, name: str) -> bool:
    one = found.files[name]
    return one.size_bytes >= _SPARSE_BYTES and one.held_bytes < one.size_bytes


def _check_safetensors(fd: int) -> Checked:
    size = os.fstat(fd).st_size
    start = read_at(fd, 0, 8)
    header_bytes = int.from_bytes(start, "little")
    if len(start) == 8 and MOST_HEADER_BYTES < header_bytes <= min(
        size - 8, safetensors.MAX_HEADER_BYTES
    ):
        return Checked(unknown=f"its header has {header_bytes} bytes, too many for a look")
    said = safetensors.check_shard(fd, "it")
    return Checked(problem=None if said.ok else (said.reason or "damaged").removeprefix("it: "))
