"""Mounts from /proc/PID/mountinfo: parsing, lookup by path, by mount id and by device.

A line, with any number of optional fields before the lone dash::

    36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue

Mount points and sources escape blank, tab, newline and backslash as three octal digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from slurm_io.filesystems.kinds import Kind, kind_of
from slurm_io.host.read import read_optional_text
from slurm_io.records import dataclass

if TYPE_CHECKING:  # 3 ms, of which a prolog needs nothing
    from pathlib import Path

_ESCAPE = re.compile(r"\\([0-3][0-7]{2})")
_LIMIT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Mount:
    """One mount. `options` are the mount's own, `super_options` those of the file system.

    `major_minor` is ``"259:3"``; major 0 is an anonymous device (network, overlay, btrfs).
    `propagation` holds the optional fields, e.g. ``("shared:1",)``.
    """

    mount_id: int
    parent_id: int
    major_minor: str
    root: str
    mount_point: str
    fstype: str
    source: str
    options: tuple[str, ...]
    super_options: tuple[str, ...]
    propagation: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        """Family of the file system: local, nfs, lustre, fuse, …"""
        return kind_of(self.fstype)

    @property
    def made_by_user(self) -> bool:
        """Whether a user mounted it (fusermount): its server answers what and when he wants."""
        return self.kind == "fuse" and self.option("user_id") not in (None, "0")

    def option(self, name: str) -> str | None:
        """Value of ``name=value`` among the super block's, then the mount's options."""
        prefix = name + "="
        for option in (*self.super_options, *self.options):
            if option.startswith(prefix):
                return option[len(prefix) :]
        return None


class MountTable:
    """The mounts of one mount namespace in the order the kernel lists them."""

    def __init__(self, mounts: Iterable[Mount]) -> None:
        self._mounts = tuple(mounts)
        self._by_id = {mount.mount_id: mount for mount in self._mounts}
        # A later mount on the same point covers the earlier one, hence the later entry stays.
        self._by_point = {mount.mount_point: mount for mount in self._mounts}
        self._below = {(mount.parent_id, mount.mount_point): mount for mount in self._mounts}
        self._top = self._find_top()

    def __iter__(self) -> Iterator[Mount]:
        return iter(self._mounts)

    def __len__(self) -> int:
        return len(self._mounts)

    def by_id(self, mount_id: int) -> Mount | None:
        """The mount whose id /proc/PID/fdinfo/N names as ``mnt_id``."""
        return self._by_id.get(mount_id)

    def by_device(self, major_minor: str) -> tuple[Mount, ...]:
        """All mounts of one device number."""
        return tuple(mount for mount in self._mounts if mount.major_minor == major_minor)

    def at(self, mount_point: str) -> Mount | None:
        """The visible mount exactly at `mount_point`."""
        mount = self.of_path(mount_point)
        return mount if mount is not None and mount.mount_point == mount_point else None

    def of_path(self, path: str) -> Mount | None:
        """The mount an absolute, resolved path lies on; None for a relative path.

        Follows the tree as the kernel does, so a mount hidden below a later one is not found; falls
        back to the longest mount point when the tree has no root here (chroot).
        """
        if not path.startswith("/"):
            return None
        if self._top is None:
            return self._longest_prefix(path)
        mount = self._top
        for prefix in _prefixes(path):
            mount = self._uncover(mount, prefix)
        return mount

    def _uncover(self, mount: Mount, point: str) -> Mount:
        seen = {mount.mount_id}
        while (above := self._below.get((mount.mount_id, point))) and above.mount_id not in seen:
            seen.add(above.mount_id)
            mount = above
        return mount

    def _find_top(self) -> Mount | None:
        for mount in self._mounts:
            parent = self._by_id.get(mount.parent_id)
            if mount.mount_point == "/" and (parent is None or parent is mount):
                return mount
        return None

    def _longest_prefix(self, path: str) -> Mount | None:
        found = None
        for prefix in _prefixes(path):
            found = self._by_point.get(prefix, found)
        return found


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """All mounts of a mountinfo text; lines that are no mount lines are left out."""
    # Not splitlines: a user may put U+2028 or a form feed into the name of his mount.
    return tuple(mount for line in text.split("\n") if (mount := parse_line(line)) is not None)


def parse_line(line: str) -> Mount | None:
    """One line, or None when it has not the shape of one."""
    # Never split on the string " - ": a source may be a lone dash. The first lone dash after the
    # six fixed fields ends the optional ones.
    fields = line.rstrip("\n").split(" ")
    try:
        dash = fields.index("-", 6)
        mount_id, parent_id = int(fields[0]), int(fields[1])
    except ValueError:
        return None
    if len(fields) < dash + 3:
        return None
    return Mount(
        mount_id=mount_id,
        parent_id=parent_id,
        major_minor=fields[2],
        root=unescape(fields[3]),
        mount_point=unescape(fields[4]),
        fstype=unescape(fields[dash + 1]),
        source=unescape(fields[dash + 2]),
        options=tuple(fields[5].split(",")),
        super_options=tuple(unescape(" ".join(fields[dash + 3 :])).split(",")),
        propagation=tuple(field for field in fields[6:dash] if field),
    )


def unescape(text: str) -> str:
    r"""Turn ``\040`` and its like back into the character, leaving any other backslash."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: chr(int(match.group(1), 8)), text)


def read_mounts(proc_root: str | Path = "/proc", pid: int | None = None) -> MountTable:
    """Mounts as process `pid` sees them (this one by default); empty when unreadable."""
    who = "self" if pid is None else str(pid)
    text = read_optional_text(f"{proc_root}/{who}/mountinfo", _LIMIT_BYTES)
    return MountTable(parse_mountinfo(text or ""))


def _prefixes(path: str) -> Iterator[str]:
    """``/a/b`` -> ``/``, ``/a``, ``/a/b``."""
    yield "/"
    position = path.find("/", 1)
    while position > 0:
        yield path[:position]
        position = path.find("/", position + 1)
    if len(path) > 1 and not path.endswith("/"):
        yield path
