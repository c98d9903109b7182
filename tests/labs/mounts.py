"""Asks the kernel's own list what is mounted, and detaches mounts: never touches the mount."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

UNMOUNT_TIMEOUT_S = 20


def mounted_at(mountpoint: Path) -> bool:
    """Whether something is mounted at exactly `mountpoint` (a stat of it could hang)."""
    # Resolving the parent is enough: the last component is the mount point itself.
    wanted = os.fspath(mountpoint.parent.resolve() / mountpoint.name)
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return any(_unescape(line.split(" ", 5)[4]) == wanted for line in lines)


def unmount_lazily(mountpoint: Path) -> None:
    """Detach the mount whoever still uses it; nothing happens when there is none."""
    path = os.fspath(mountpoint)
    for command in (["fusermount3", "-u", "-z", "-q", path], ["umount", "-l", path]):
        done = subprocess.run(command, check=False, capture_output=True, timeout=UNMOUNT_TIMEOUT_S)
        if done.returncode == 0:
            return


def _unescape(field: str) -> str:
    """mountinfo writes blanks and backslashes in octal."""
    for octal, character in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        field = field.replace(octal, character)
    return field
