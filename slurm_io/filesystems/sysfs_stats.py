"""Disk counters from /sys/class/block/*/stat in the form of /proc/diskstats.

In a container /proc/diskstats can be a file of lxcfs, which shows what the container's control
group did instead of what the device did. /sys still has the kernel's own numbers.
"""

from __future__ import annotations

import os
from pathlib import Path

from slurm_io.filesystems.block_devices import is_ignored
from slurm_io.host.kept import KeptFile

_MOST_DEVICES = 512


class SysfsStats:
    """Reads as a kept /proc/diskstats does. The list of devices is that of the last
    :meth:`relist`."""

    def __init__(self, sys_root: Path) -> None:
        self.path = os.fspath(sys_root / "class" / "block")
        self._files: dict[str, KeptFile] = {}
        self._names: list[str] = []
        self.relist()

    def relist(self) -> None:
        """Look which devices there are."""
        try:
            listed = (entry.name for entry in Path(self.path).iterdir())
            names = sorted(name for name in listed if not is_ignored(name))
        except OSError:
            names = []
        self._names = names[:_MOST_DEVICES]
        for gone in self._files.keys() - set(self._names):
            self._files.pop(gone).close()
        for name in self._names:
            self._files.setdefault(name, KeptFile(f"{self.path}/{name}/stat"))

    def read(self) -> bytes | None:
        """One line a device, with 0 for its number; None when no device can be read."""
        lines = []
        for name in self._names:
            counters = self._files[name].read()
            if counters:
                shown = name.replace("!", "/").encode()
                lines.append(b" 0 0 " + shown + b" " + counters.strip() + b"\n")
        return b"".join(lines) or None

    def close(self) -> None:
        """Give the descriptors back."""
        for file in self._files.values():
            file.close()
