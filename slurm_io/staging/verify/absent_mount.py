"""Whether the mount that should lie below a path is provably not there."""

from __future__ import annotations

import os
from collections.abc import Iterable

from slurm_io.filesystems.mounts import read_mounts, unescape


def absent_mount(
    path: str, configured: Iterable[str] = (), proc_root: str = "/proc", fstab: str = "/etc/fstab"
) -> str | None:
    """The mount point (of `configured` or fstab) on the way to `path` where nothing is mounted.

    The text of `path` counts, not where links lead: links on a missing mount cannot be read. None:
    nothing is known to be absent.
    """
    table = read_mounts(proc_root)
    if not len(table):
        return None
    points = {*configured, *fstab_points(fstab)} - {"", "/"}
    for point in sorted(map(os.path.normpath, points), key=len):
        if (path == point or path.startswith(point + "/")) and table.at(point) is None:
            return None if _is_link(point) else point
    return None


def fstab_points(path: str) -> list[str]:
    """Mount points of fstab that are mounted at boot; [] when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.split() for line in file.read(1 << 20).splitlines()]
    except OSError:
        return []
    return [
        unescape(words[1])
        for words in lines
        if len(words) >= 4 and words[0][0] != "#" and words[1][0] == "/"
        if not {"noauto", "nofail", "x-systemd.automount"} & set(words[3].split(","))
    ]


def _is_link(point: str) -> bool:
    """Through a link the mount table shows another name."""
    return os.path.realpath(point) != point
