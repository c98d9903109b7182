"""Gzip files whose unpacked length nobody should trust."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from typing import IO

from slurm_io.errors import ManifestError

MAX_RATIO = 200  # listings pack 10 to 30 times; a bomb 1000 times
MAX_UNPACKED_BYTES = 16 << 30
FREE_BYTES = 16 << 20  # below this no ratio counts
_MAGIC = b"\x1f\x8b"


def unpacked(raw: IO[bytes], where: str) -> IO[bytes]:
    """The file itself, or what it unpacks to when it is gzip: at most 200 times its length.

    Reading raises ManifestError when the limit is passed or the file is damaged.
    """
    head = raw.read(len(_MAGIC))
    raw.seek(0)
    if head != _MAGIC:
        return raw
    packed_bytes = os.fstat(raw.fileno()).st_size
    limit = min(max(packed_bytes * MAX_RATIO, FREE_BYTES), MAX_UNPACKED_BYTES)
    return io.BufferedReader(_Bounded(gzip.GzipFile(fileobj=raw), limit, where))


class _Bounded(io.RawIOBase):
    """Bytes of a compressed file, up to a limit."""

    def __init__(self, inner: gzip.GzipFile, limit: int, where: str) -> None:
        self._inner = inner
        self._left = limit
        self._where = where

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        try:
            part = self._inner.read(len(buffer))
        except (OSError, EOFError, zlib.error) as error:
            raise ManifestError(f"{self._where}: damaged gzip ({error!s:.80})") from None
        self._left -= len(part)
        if self._left < 0:
            raise ManifestError(f"{self._where}: unpacks to far more than a listing does")
        buffer[: len(part)] = part
        return len(part)
