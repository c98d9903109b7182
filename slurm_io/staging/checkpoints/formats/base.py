"""What a checkpoint format is, and the registry that finds them.

A format looks at names and sizes that were found already, and at headers and ends of files. It
never unpickles by :mod:`pickle`'s own means and never imports torch.
"""

from __future__ import annotations

from typing import Protocol

from slurm_io.registry import Registry
from slurm_io.staging.checkpoints.found import Found
from slurm_io.staging.checkpoints.model import Judged


class Format(Protocol):
    """`order`: several may recognise one save; the lowest speaks."""

    name: str
    order: int

    def recognises(self, found: Found) -> bool:
        """Whether this is a save of the format, or what an unfinished one left. Raises OSError."""

    def judge(self, found: Found) -> Judged:
        """Whether it is whole. Raises OSError."""


FORMATS: Registry[type[Format]] = Registry(
    "checkpoint format", "slurm_io.staging.checkpoints.formats"
)


def format_of(found: Found) -> Format | None:
    """The format that knows the save best; None where none knows it. Raises OSError."""
    ordered = sorted((one() for one in FORMATS), key=lambda one: one.order)
    return next((one for one in ordered if one.recognises(found)), None)
