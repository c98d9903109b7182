"""Which OSTs a Lustre file system has: `lfs df`, `lfs osts`, or the client's own devices in sysfs.

Indices have holes and mount points may hold blanks: only the ``[OST:n]`` at a line's end counts::

    lustre-OST0000_UUID  94181368  56330708  37850660  59%  /mnt/lustre[OST:0]
    OST0003             : inactive device
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from slurm_io.errors import HostError
from slurm_io.host.read import read_optional_line

_DF_LINE = re.compile(r"^(\S+)\s+.*?(\d+)%\s+.*\[OST:(\d+)\]")
_OSTS_LINE = re.compile(r"^\s*(\d+): (\S+) (ACTIVE|INACTIVE)\b")
_DEVICE = re.compile(r"(.+)-OST([0-9a-fA-F]{4})-osc-[0-9a-fA-F]{16}")


@dataclass(frozen=True)
class OstSet:
    """Active OST indices and, where known, how full each is (share of its space, 0 to 1)."""

    active: frozenset[int]
    used_share: dict[int, float]
    source: str

    @property
    def count(self) -> int:
        """How many are active."""
        return len(self.active)


def parse_lfs_df(text: str) -> OstSet | None:
    """The OSTs of an `lfs df` (with or without -h); None when it lists none."""
    used: dict[int, float] = {}
    for line in text.splitlines():
        found = _DF_LINE.match(line)
        if found is not None and found[1] != "filesystem":
            used.setdefault(int(found[3]), int(found[2]) / 100)
    return OstSet(frozenset(used), used, "lfs df") if used else None


def parse_lfs_osts(text: str) -> OstSet | None:
    """The active OSTs of an `lfs osts`; None when it lists none."""
    lines = (_OSTS_LINE.match(line) for line in text.splitlines())
    active = frozenset(int(line[1]) for line in lines if line is not None and line[3] == "ACTIVE")
    return OstSet(active, {}, "lfs osts") if active else None


def read_sysfs(file_system: str | None, sys_root: str = "/sys") -> OstSet | None:
    """The OSTs this client is connected to, without asking any server; None when not to be told.

    `file_system` is the name in the mount's source (``mgs@tcp:/NAME``); without it the devices must
    all be of one file system.
    """
    folder = os.path.join(sys_root, "fs/lustre/osc")
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    devices = [(name, found) for name in names if (found := _DEVICE.fullmatch(name)) is not None]
    if file_system is None and len({found[1] for _, found in devices}) != 1:
        return None
    active = frozenset(
        int(found[2], 16)
        for name, found in devices
        if file_system in (None, found[1])
        and read_optional_line(os.path.join(folder, name, "active")) != "0"
    )
    return OstSet(active, {}, "sysfs") if active else None


def file_system_of(source: str) -> str | None:
    """``10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch/sub`` -> ``scratch``."""
    name = source.partition(":/")[2].partition("/")[0]
    return name or None


def osts_of(
    mount_point: str, source: str, timeout_s: float, sys_root: str = "/sys", ask: bool = True
) -> OstSet | None:
    """The OSTs of a mounted file system: sysfs first (free), then, with `ask`, `lfs osts`.

    `lfs df` would ask every server and hang with the first dead one, so it is not used here.
    """
    found = read_sysfs(file_system_of(source), sys_root)
    if found is not None or not ask:
        return found
    return _ask_lfs(mount_point, timeout_s)


def _ask_lfs(mount_point: str, timeout_s: float) -> OstSet | None:
    from slurm_io.host.run import find_tool, run  # subprocess, which a prolog rarely needs

    tool = find_tool("lfs")
    if tool is None:
        return None
    try:
        done = run([tool, "osts", mount_point], timeout_s)
    except HostError:
        return None
    return parse_lfs_osts(done.stdout)


def fill_imbalance(
    used_share: dict[int, float], indices: Iterable[int] | None = None
) -> float | None:
    """Fullest OST over the mean; None when less than two are known or all are empty."""
    wanted = list(used_share if indices is None else indices)
    shares = [used_share[index] for index in wanted if index in used_share]
    mean = sum(shares) / len(shares) if len(shares) > 1 else 0.0
    return max(shares) / mean if mean > 0 else None
