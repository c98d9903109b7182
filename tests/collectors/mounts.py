"""Lines of a made-up mountinfo."""

from __future__ import annotations


def mount_line(
    number: int, point: str, fstype: str, source: str, device: str = "", options: str = "rw"
) -> str:
    """A mount below the root; `device` is ``0:NUMBER`` by default."""
    return f"{number} 1 {device or f'0:{number}'} / {point} rw - {fstype} {source} {options}\n"


ROOT = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
