"""Names of a node folder's table files, e.g. ``block.arrows`` and ``block-0003.parquet``.

A part keeps its number from stream to Parquet, so the two forms of one part are told by name.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from slurm_io.errors import StoreError
from slurm_io.store.files import why

_PART = re.compile(r"([a-z_]{1,64})(?:-([0-9]{4,9}))?\.(arrows|parquet)\Z")
_NUMBERED = "parquet"  # without a number it is a job's compacted table
MAX_ENTRIES = 100_000


@dataclass(frozen=True, order=True)
class Part:
    """One table file. `number` is None for a stream that was never rotated."""

    table: str
    number: int | None
    suffix: str

    @property
    def file_name(self) -> str:
        """As it stands in the folder."""
        number = "" if self.number is None else f"-{self.number:04d}"
        return f"{self.table}{number}.{self.suffix}"


def parse_part(name: str) -> Part | None:
    """The part a file name stands for; None for any other file."""
    match = _PART.match(name)
    if match is None:
        return None
    if match[2] is None and match[3] == _NUMBERED:
        return None
    number = None if match[2] is None else int(match[2])
    part = Part(match[1], number, match[3])
    return part if part.file_name == name else None


def list_names(folder: Path) -> list[str]:
    """Sorted names in a folder; StoreError when it cannot be listed or is absurdly full."""
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) > MAX_ENTRIES:
                    raise StoreError(f"{folder} holds more than {MAX_ENTRIES} files: not a store")
    except OSError as exc:
        raise StoreError(f"cannot list {folder}: {why(exc)}") from exc
    return sorted(names)


def list_parts(folder: Path) -> list[Part]:
    """All table files of a node folder: by table, oldest first, the live stream last."""
    found = [part for part in map(parse_part, list_names(folder)) if part is not None]
    return sorted(found, key=_age_order)


def _age_order(part: Part) -> tuple[str, bool, int, str]:
    return (part.table, part.number is None, part.number or 0, part.suffix)


def next_number(parts: list[Part], table: str) -> int:
    """The number the table's next part gets, from 0."""
    numbers = [part.number for part in parts if part.table == table and part.number is not None]
    return 1 + max(numbers, default=-1)
