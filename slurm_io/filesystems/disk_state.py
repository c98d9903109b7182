"""Whether the kernel still calls a disk alive, from /sys/block/<disk>/device/state."""

from __future__ import annotations

import os
from typing import Literal

from slurm_io.host.read import read_optional_line

Life = Literal["alive", "troubled", "dead", "unknown"]

_LIVES: dict[str, Life] = {
    "live": "alive", "running": "alive",
    "new": "troubled", "resetting": "troubled", "connecting": "troubled",
    "blocked": "troubled", "quiesce": "troubled", "created": "troubled",
    "created-blocked": "troubled",
    "dead": "dead", "deleting": "dead", "deleting (no IO)": "dead",
    "offline": "dead", "transport-offline": "dead", "cancel": "dead", "deleted": "dead",
}  # fmt: skip


def disk_life(sys_root: str, disk: str) -> tuple[Life, str]:
    """A disk's life and the kernel's own word for it. NVMe and SCSI have one, others are unknown;
    a disk that is not in /sys any more is dead."""
    folder = f"{sys_root}/class/block/{disk.replace('/', '!')}"
    if not os.path.exists(folder):  # noqa: PTH110
        return "dead", "not there"
    word = read_optional_line(f"{folder}/device/state")
    return _LIVES.get(word or "", "unknown"), word or ""


def dm_is_suspended(sys_root: str, name: str) -> bool:
    """Whether a device-mapper volume holds back all I/O."""
    return read_optional_line(f"{sys_root}/class/block/{name}/dm/suspended") == "1"


def whole_disks(sys_root: str) -> list[str]:
    """Names of all disks of the node that are hardware (or a virtual machine's idea of it)."""
    try:
        names = sorted(os.listdir(f"{sys_root}/block"))  # noqa: PTH208
    except OSError:
        return []
    made_up = ("dm-", "md", "loop", "ram", "zram", "nbd", "sr", "fd")
    return [name.replace("!", "/") for name in names if not name.startswith(made_up)]
