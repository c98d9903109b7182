"""/proc/wekafs/stat: operations of this node's client since its driver was loaded.

::

    IO type:            UM Average      UM Longest      KM Average      KM Longest      IO count
    write:                18957 us        563448 us       495291 ns       920127 ns       983137 (…)

UM is the time outside the kernel (front end, network, servers), KM the driver's own. Source: NVIDIA
GPUDirect Storage guide, "Displaying the Summary of the WekaIO File System Statistics". What the
number in brackets counts is documented nowhere; it is left alone.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from slurm_io.filesystems.client_counters import OpClass
from slurm_io.filesystems.counter_text import counter

_LINE = re.compile(
    r"\s*(?P<name>\S[^:]{0,60}):\s+(\d+)\s+us\s+(\d+)\s+us\s+(\d+)\s+ns\s+(\d+)\s+ns\s+(\d+)"
    r"(?:\s+\([^()]*\))?\s*",
    re.ASCII,
)
_CLASS_OF: dict[str, OpClass | None] = {
    "read": "read",
    "jumbo read": "read",
    "write": "write",
    "jumbo write": "write",
    # GPUDirect Storage comes as ioctl, reads and writes alike.
    "ioctl": "any",
    "total": None,
    "keepalive": None,
    # A step of each write, counted once more by itself.
    "sg_allocate": None,
}


class WekaOperation(NamedTuple):
    """One line. Means and longest times are since the driver was loaded."""

    name: str
    ops: int
    user_mean_us: int
    user_longest_us: int
    kernel_mean_ns: int
    kernel_longest_ns: int


class WekaStat(NamedTuple):
    """Operations by the line they stand in, and how many lines were of another shape (rule and
    header apart)."""

    by_line: dict[str, WekaOperation]
    damaged: int

    @property
    def operations(self) -> tuple[WekaOperation, ...]:
        """In the order of the lines."""
        return tuple(self.by_line.values())


def parse_stat(text: str, before: WekaStat | None = None) -> WekaStat:
    """Lines that are none of the table are left out and counted. Those of `before` are not parsed
    again: most do not change from one second to the next."""
    known = before.by_line if before is not None else {}
    by_line = {}
    damaged = 0
    for line in text.splitlines():
        operation = known.get(line) or _operation(line)
        if operation is not None:
            by_line[line] = operation
        elif line.strip("- \t") and not line.lstrip().startswith("IO type:"):
            damaged += 1
    return WekaStat(by_line, damaged)


def class_of(name: str) -> OpClass | None:
    """Class of an operation; None for what is no work of its own (total, keepalive,
    SG_allocate)."""
    return _CLASS_OF.get(name.lower(), "meta")


def _operation(line: str) -> WekaOperation | None:
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    name, *numbers = found.groups()
    values = [counter(number) for number in numbers]
    user_mean_us, user_longest_us, kernel_mean_ns, kernel_longest_ns, count = values
    if (
        user_mean_us is None
        or user_longest_us is None
        or kernel_mean_ns is None
        or kernel_longest_ns is None
        or count is None
    ):
        return None
    return WekaOperation(
        name, count, user_mean_us, user_longest_us, kernel_mean_ns, kernel_longest_ns
    )
