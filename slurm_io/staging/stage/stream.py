"""Bytes from one open file to another at the same place, by the fastest call that works here."""

from __future__ import annotations

import errno
import os
import time
from typing import Literal

from slurm_io.staging.stage.engines.base import FetchOptions

STEP_BYTES = 8 << 20
Way = Literal["copy_file_range", "sendfile", "read and write"]


class ReadFailed(OSError):
    """The source's side."""


class WriteFailed(OSError):
    """The target's side."""


class Pump:
    """Moves bytes within one call of an engine. `stopped`: told to end before the end."""

    def __init__(self, options: FetchOptions) -> None:
        self.options = options
        self.moved_bytes = 0
        self.stopped = False
        self._way: Way = "copy_file_range"
        self._started_s = time.monotonic()

    def move(self, source: int, target: int, start: int, length: int) -> None:
        """Copy a piece. Raises ReadFailed, also when the source ends before; WriteFailed."""
        end = start + length
        while start < end:
            if self.options.stop.is_set():
                self.stopped = True
                return
            moved = self._some(source, target, start, min(self._step(), end - start))
            if not moved:
                raise ReadFailed(errno.ENODATA, "the source's file ends before its size")
            start += moved
            self.moved_bytes += moved
            self.options.moved(moved)
            self._brake()

    def _step(self) -> int:
        """Small enough that a limit is kept within half a second."""
        limit = self.options.bandwidth_bytes_s
        return STEP_BYTES if not limit else max(4096, min(STEP_BYTES, limit // 2))

    def _brake(self) -> None:
        limit = self.options.bandwidth_bytes_s
        if limit:
            early_s = self.moved_bytes / limit - (time.monotonic() - self._started_s)
            if early_s > 0:
                self.options.stop.wait(early_s)

    def _some(self, source: int, target: int, start: int, length: int) -> int:
        if self._way == "copy_file_range":
            try:
                moved = os.copy_file_range(source, target, length, start, start)
                if moved:  # 0 before the end: file systems that make their content as one reads
                    return moved
            except OSError as error:
                _raise_if_target(error)
            self._way = "sendfile"
        if self._way == "sendfile":
            try:
                os.lseek(target, start, os.SEEK_SET)
                moved = os.sendfile(target, source, start, length)
                if moved:
                    return moved
            except OSError as error:
                _raise_if_target(error)
            self._way = "read and write"
        return self._read_and_write(source, target, start, length)

    def _read_and_write(self, source: int, target: int, start: int, length: int) -> int:
        try:
            block = os.pread(source, length, start)
        except OSError as error:
            raise ReadFailed(error.errno, error.strerror) from error
        try:
            done = 0
            while done < len(block):
                done += os.pwrite(target, block[done:], start + done)
        except OSError as error:
            raise WriteFailed(error.errno, error.strerror) from error
        return len(block)


def _raise_if_target(error: OSError) -> None:
    """What only a write can meet; all else is told apart by reading and writing."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG):
        raise WriteFailed(error.errno, error.strerror) from error
