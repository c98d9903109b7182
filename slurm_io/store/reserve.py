"""Room kept back in the spool, so that a full disk can still be reported.

``meta.json`` and ``self.json`` are replaced by rename, which needs room for the new ones while
the old ones stand: on a full disk they would say for ever what was true before it filled up.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

RESERVE_BYTES = 128 * 1024
_NAME = ".reserve.tmp"  # sealing removes such names when no writer lives


class Reserve:
    """A file of `RESERVE_BYTES` in `folder`, made when there is room for it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME

    @contextmanager
    def lent(self, again: bool) -> Iterator[None]:
        """Its room is free within the block; taken `again` afterwards, when wanted and possible."""
        self._give()
        try:
            yield
        finally:
            if again:
                self._take()

    def _take(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(OSError):
            fd = os.open(self._path, flags, 0o600)
            try:
                os.posix_fallocate(fd, 0, RESERVE_BYTES)
            except OSError:
                self._give()
            finally:
                os.close(fd)

    def _give(self) -> None:
        with suppress(OSError):
            self._path.unlink()
