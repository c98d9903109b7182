"""Which data files a process has mapped, from /proc/PID/maps, to name the target of page faults.

A line: ``7f2c-7f3c r--s 00000000 00:31 1234    /mnt/data/tokens.bin``. A fault names no file. Files
mapped executable anywhere are libraries; what remains is data. Only an unambiguous answer counts:
one mount, the root file system left aside when there is another.
"""

from __future__ import annotations

import re
from pathlib import Path

from slurm_io.filesystems.mounts import Mount, MountTable
from slurm_io.host.read import read_optional_text

_LINE = re.compile(
    r"^[0-9a-f]+-[0-9a-f]+ (....) [0-9a-f]+ ([0-9a-f]+):([0-9a-f]+) \d+ +(/.*)$", re.MULTILINE
)
_LIMIT_BYTES = 8 * 1024 * 1024
_NO_DATA = ("/dev/", "/memfd:", "/SYSV", "/proc/", "/anon_hugepage")
_MEMORY_KINDS = ("tmpfs", "pseudo")


def mapped_target(proc_root: Path, pid: int, table: MountTable) -> tuple[Mount | None, str | None]:
    """(mount, path) of the mapped data; the path only when there is a single file."""
    text = read_optional_text(proc_root / str(pid) / "maps", _LIMIT_BYTES)
    return data_target(text or "", table)


def data_target(maps: str, table: MountTable) -> tuple[Mount | None, str | None]:
    """As :func:`mapped_target`, from the text."""
    files_of: dict[str, set[str]] = {}
    mounts: dict[str, Mount] = {}
    for path, device in data_files(maps).items():
        mount = _mount_of(path, device, table)
        if mount is not None and mount.kind not in _MEMORY_KINDS:
            mounts[mount.mount_point] = mount
            files_of.setdefault(mount.mount_point, set()).add(path)
    if len(mounts) > 1:
        mounts.pop("/", None)
    if len(mounts) != 1:
        return None, None
    point, mount = next(iter(mounts.items()))
    files = files_of[point]
    return mount, _safe(next(iter(files))) if len(files) == 1 else None


def data_files(maps: str) -> dict[str, str]:
    """Path -> ``major:minor`` of the regular files mapped and never executable."""
    found: dict[str, str] = {}
    executable: set[str] = set()
    for permissions, major, minor, path in _LINE.findall(maps):
        if "x" in permissions:
            executable.add(path)
        elif not path.startswith(_NO_DATA):
            found[path] = f"{int(major, 16)}:{int(minor, 16)}"
    return {
        path: device
        for path, device in found.items()
        if path not in executable and not _is_of_the_system(path)
    }


def _is_of_the_system(path: str) -> bool:
    """Locale archives, gconv caches and libraries whose code is not mapped."""
    name = path.rpartition("/")[2]
    return ".so" in name or path.startswith(("/usr/", "/lib", "/etc/")) or name.endswith(".mo")


def _mount_of(path: str, device: str, table: MountTable) -> Mount | None:
    """The mount the path lies on; btrfs and overlay show another device in maps."""
    of_device = table.by_device(device)
    fitting = [m for m in of_device if path == m.mount_point or path.startswith(_below(m))]
    if fitting:
        return max(fitting, key=lambda mount: len(mount.mount_point))
    return table.of_path(path)


def _below(mount: Mount) -> str:
    return mount.mount_point.rstrip("/") + "/"


def _safe(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")[-1024:]
