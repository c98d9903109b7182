"""Bytes a control group moved on block devices, from v2 io.stat and v1 blkio.throttle files.

Both list every layer (a dm and the disk below it: the same bytes twice), so only devices with
nothing below are added up. Network file systems never appear. Keys may be missing and unknown ones
appear (``cost.usage``), and a v2 line may be a bare ``8:16``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

_NO_DISKS = (b"1", b"2", b"7", b"11")
"""Majors of RAM disks, floppies, loop devices (their bytes show on what lies below, or nowhere) and
optical drives. zram has no fixed one."""

ReadAndWritten = tuple[int, int]
IsCounted = Callable[[bytes], bool]


def io_stat_bytes(text: bytes, is_counted: IsCounted) -> ReadAndWritten:
    """Read and written bytes of a v2 ``io.stat``, over the devices `is_counted` says yes to."""
    read_bytes = written_bytes = 0
    for line in text.splitlines():
        fields = line.split()
        if not fields or not is_counted(fields[0]):
            continue
        numbers = dict(_numbers(fields[1:]))
        read_bytes += numbers.get(b"rbytes", 0)
        written_bytes += numbers.get(b"wbytes", 0)
    return read_bytes, written_bytes


def blkio_bytes(text: bytes, is_counted: IsCounted) -> ReadAndWritten:
    """The same from v1 lines ``8:0 Read 132749824``; the sums named Total, Sync, Async are not."""
    moved = {b"Read": 0, b"Write": 0}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] in moved and fields[2].isdigit():
            moved[fields[1]] += int(fields[2]) if is_counted(fields[0]) else 0
    return moved[b"Read"], moved[b"Write"]


class LowestDevices:
    """Tells disks with nothing below from stacked devices, by ``/sys/dev/block/M:m/slaves``."""

    def __init__(self, sys_root: Path) -> None:
        self._folder = sys_root / "dev" / "block"
        self._known: dict[bytes, bool] = {}

    def __call__(self, major_minor: bytes) -> bool:
        """True for a disk whose bytes show on no device below it."""
        if major_minor not in self._known:
            self._known[major_minor] = self._is_lowest(major_minor)
        return self._known[major_minor]

    def _is_lowest(self, major_minor: bytes) -> bool:
        if major_minor.partition(b":")[0] in _NO_DISKS:
            return False
        try:
            folder = self._folder / major_minor.decode()
            if folder.resolve().name.startswith("zram"):
                return False
            return not any((folder / "slaves").iterdir())
        except (OSError, ValueError):  # a name with a null byte, or no UTF-8
            return True


def _numbers(pairs: list[bytes]) -> Iterator[tuple[bytes, int]]:
    for pair in pairs:
        key, _, value = pair.partition(b"=")
        if value.isdigit():
            yield key, int(value)
