"""Where a client's files lie: sysfs, debugfs or procfs, by version, searched in lctl's order.

llite, osc and mdc ``stats`` moved from procfs (2.10) to debugfs (2.12), which is root's alone;
``import``, ``state`` and ``rpc_stats`` followed in 2.17. Names of instances and simple values are
in sysfs since 2.12, for everybody.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from slurm_io.filesystems.lustre.names import Instance, Target, parse_instance, parse_target
from slurm_io.host.kept import KeptFile

_NAME_BYTES = 128
_GET_METADATA_NAME = 0x80806683  # OBD_IOC_GETMDNAME, _IOR('f', 131, char[128]): the same since 2.0
_DENIED = {errno.EACCES, errno.EPERM}


class Places:
    """The roots below which one node's Lustre shows itself."""

    def __init__(self, proc_root: Path, sys_root: Path) -> None:
        self._debug = sys_root / "kernel" / "debug"
        self._roots = (sys_root / "fs/lustre", self._debug / "lustre", proc_root / "fs/lustre")
        self._lnet = (self._debug / "lnet/stats", proc_root / "sys/lnet/stats")

    def instances(self) -> list[Instance]:
        """The mounts of this node's client, whoever's namespace they are in."""
        return sorted(filter(None, map(parse_instance, self._names("llite"))))

    def targets(self) -> list[Target]:
        """The client's connections, devices of servers left out."""
        names = self._names("osc") | self._names("mdc")
        return sorted(filter(None, map(parse_target, names)))

    def find(self, relative: str) -> KeptFile | None:
        """The first of the places where that file can be read now."""
        return _first_readable([f"{root}/{relative}" for root in self._roots])

    def find_lnet(self) -> KeptFile | None:
        """LNet's counters."""
        return _first_readable([str(path) for path in self._lnet])

    def why_missing(self, relative: str) -> str:
        """Why :meth:`find` found nothing, and what to do."""
        try:
            (self._debug / "lustre" / relative).stat()
        except OSError as error:
            if error.errno in _DENIED:
                return "is in debugfs, which only root can read: run the sampler as root"
        if not (self._debug / "lustre").is_dir() and not self._roots[2].is_dir():
            return "is not visible: debugfs is not mounted, or this is a container"
        return "is in none of the places where Lustre 2.5 to 2.17 have it"

    def _names(self, kind: str) -> set[str]:
        found: set[str] = set()
        for root in self._roots:
            try:
                found.update(folder.name for folder in (root / kind).iterdir())
            except OSError:
                continue
        return found


def metadata_name_of(mount_point: str) -> str:
    """``fsname-clilmv-<16 hex>``, which tells the instance of a mount. Opens the mount's root: only
    for a child that may hang (:mod:`slurm_io.host.probe`).

    Raises:
        OSError: it cannot be opened, or is no Lustre mount.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(mount_point, flags)
    try:
        answer = fcntl.ioctl(descriptor, _GET_METADATA_NAME, bytes(_NAME_BYTES))
    finally:
        os.close(descriptor)
    return answer.split(b"\0", 1)[0].decode("ascii", "replace")


def _first_readable(paths: list[str]) -> KeptFile | None:
    for path in paths:
        file = KeptFile(path)
        if file.read() is not None:
            return file
        file.close()
    return None
