"""Which mount and file a storage wait is about.

With a descriptor: /proc/PID/fdinfo/FD gives the mount's id, /proc/PID/mountinfo the mount. With a
path pointer: the path, read from the process's memory. Where that fails, and for page faults: the
client whose function the thread sleeps in, when exactly one mount of its kind exists; for faults
then the data files the process has mapped. Looking costs some
50 µs, so answers are kept for a second per process and the number of looks a second is bounded;
in between the process's last answer for the same kind of wait stands.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from slurm_io.collectors.waits.fds import FdReader
from slurm_io.collectors.waits.mapped import mapped_target
from slurm_io.collectors.waits.reading import Reading
from slurm_io.collectors.waits.wchan import client_of
from slurm_io.filesystems.mounts import Mount, MountTable, read_mounts

_ANSWER_NS = 1_000_000_000
_MAPS_NS = 60_000_000_000
_STALE_NS = 10_000_000_000
_LOOKS_PER_SECOND = 24
_MOST_KEPT = 4096
_MOST_MOUNTS_SEEN = 256
_REREAD_MOUNTS_NS = 5_000_000_000


@dataclass(frozen=True)
class Target:
    """What is waited for; None = not known."""

    mount: str | None = None
    fstype: str | None = None
    path: str | None = None


UNKNOWN_TARGET = Target()


@dataclass(frozen=True)
class _Kept:
    target: Target
    found_ns: int


class TargetFinder:
    """Finds targets for one proc root; notes mount point -> type in `mounts_seen`."""

    def __init__(self, proc_root: Path, fds: FdReader, mounts_seen: dict[str, str]) -> None:
        self._root = proc_root
        self._fds = fds
        self._answers: dict[tuple[int, int | None, str], _Kept] = {}
        self._last: dict[int, _Kept] = {}
        self._maps: dict[int, _Kept] = {}
        self._tables: dict[str, tuple[MountTable, int]] = {}
        self._looks = 0
        self._second = 0
        self._mounts_seen = mounts_seen

    def find(self, pid: int, reading: Reading, mono_ns: int) -> Target:
        """The target of a storage reading of process `pid`."""
        key = (pid, reading.fd, "fault" if reading.is_fault else reading.call)
        kept = self._answers.get(key)
        if kept and mono_ns - kept.found_ns < _ANSWER_NS:
            return kept.target
        if self._may_look(mono_ns):
            target = self._look(pid, reading, mono_ns)
            if target.mount is not None:
                self._keep(key, target, mono_ns)
                return target
        return self._last_known(pid, kept, mono_ns)

    def _last_known(self, pid: int, kept: _Kept | None, mono_ns: int) -> Target:
        """Not looked, or the descriptor was closed meanwhile: what stood here a moment ago."""
        if kept is not None and mono_ns - kept.found_ns < _STALE_NS:
            return kept.target
        last = self._last.get(pid)
        if last is None or mono_ns - last.found_ns >= _STALE_NS:
            return UNKNOWN_TARGET
        return Target(last.target.mount, last.target.fstype)

    def _keep(self, key: tuple[int, int | None, str], target: Target, mono_ns: int) -> None:
        if len(self._answers) >= _MOST_KEPT:
            self._answers.clear()
            self._last.clear()
        self._answers[key] = self._last[key[0]] = _Kept(target, mono_ns)
        if target.mount is not None and len(self._mounts_seen) < _MOST_MOUNTS_SEEN:
            self._mounts_seen[target.mount] = target.fstype or ""

    def forget(self, pids: set[int]) -> None:
        """Drop what is kept of processes that are gone."""
        self._answers = {k: kept for k, kept in self._answers.items() if k[0] not in pids}
        for pid in pids:
            self._maps.pop(pid, None)
            self._last.pop(pid, None)

    def _may_look(self, mono_ns: int) -> bool:
        second = mono_ns // 1_000_000_000
        if second != self._second:
            self._second, self._looks = second, 0
        self._looks += 1
        return self._looks <= _LOOKS_PER_SECOND

    def _look(self, pid: int, reading: Reading, mono_ns: int) -> Target:
        if reading.path_address is not None:
            found = self._of_path(pid, reading, mono_ns)
        elif reading.fd is not None:
            found = self._of_descriptor(pid, reading.fd, mono_ns)
        else:
            found = UNKNOWN_TARGET
        if found.mount is not None:
            return found
        table = self._table(pid, mono_ns)
        of_client = _only_mount_of_client(table, reading.wchan)
        if of_client is not None:
            return _target(of_client, found.path)
        return self._of_maps(pid, table, mono_ns) if reading.is_fault else found

    def _of_path(self, pid: int, reading: Reading, mono_ns: int) -> Target:
        """By name only, as the process wrote it: links and ``..`` are not followed."""
        path = self._fds.path_at(pid, reading.path_address or 0)
        if path is None:
            return UNKNOWN_TARGET
        if not path.startswith("/"):
            start = self._start_folder(pid, reading.fd)
            if start is None:
                return UNKNOWN_TARGET
            path = f"{start}/{path}" if path else start
        path = os.path.normpath(path)
        mount = self._table(pid, mono_ns).of_path(path)
        if mount is None or mount.kind != (client_of(reading.wchan) or mount.kind):
            return UNKNOWN_TARGET  # it lies behind a link
        return _target(mount, path)

    def _start_folder(self, pid: int, fd: int | None) -> str | None:
        start = self._fds.working_folder(pid) if fd is None else self._fds.link(pid, fd)
        return start if start is not None and start.startswith("/") else None

    def _of_descriptor(self, pid: int, fd: int, mono_ns: int) -> Target:
        mount_id = self._fds.mount_id(pid, fd)
        if mount_id is None:
            return UNKNOWN_TARGET
        mount = self._table(pid, mono_ns).by_id(mount_id)
        if mount is None:
            mount = self._table(pid, mono_ns, reread=True).by_id(mount_id)
        path = self._fds.link(pid, fd)
        return _target(mount, path) if mount is not None else Target(path=path)

    def _of_maps(self, pid: int, table: MountTable, mono_ns: int) -> Target:
        kept = self._maps.get(pid)
        if kept is None or mono_ns - kept.found_ns >= _MAPS_NS:
            mount, path = mapped_target(self._root, pid, table)
            kept = _Kept(_target(mount, path) if mount else UNKNOWN_TARGET, mono_ns)
            self._maps[pid] = kept
        return kept.target

    def _table(self, pid: int, mono_ns: int, reread: bool = False) -> MountTable:
        """Mounts of the process's mount namespace; kept, reread at most every 5 s."""
        try:
            namespace = os.readlink(self._root / str(pid) / "ns/mnt")
        except OSError:
            namespace = ""
        kept = self._tables.get(namespace)
        if kept is not None and not (reread and mono_ns - kept[1] >= _REREAD_MOUNTS_NS):
            return kept[0]
        if len(self._tables) >= 64:
            self._tables.clear()
        table = read_mounts(self._root, pid)
        self._tables[namespace] = (table, mono_ns)
        return table


def _target(mount: Mount, path: str | None) -> Target:
    return Target(_safe(mount.mount_point), _safe(mount.fstype), path)


def _safe(text: str) -> str:
    """mountinfo keeps bytes that are no UTF-8 as surrogates, which a column cannot hold."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _only_mount_of_client(table: MountTable, wchan: str) -> Mount | None:
    kind = client_of(wchan)
    if kind is None:
        return None
    points = {mount.mount_point: mount for mount in table if mount.kind == kind}
    return next(iter(points.values())) if len(points) == 1 else None
