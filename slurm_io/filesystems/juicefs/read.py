"""Reads and parses ``.stats``; for a killable child, since the file is the mount's own."""

from __future__ import annotations

import errno
import os
import stat

from slurm_io.filesystems.juicefs.stats import USED_NAMES, Edition, parse_stats

_LIMIT_BYTES = 1024 * 1024
_CHUNK_BYTES = 65536


def read_counters(mount_point: str) -> tuple[Edition, dict[str, float], int]:
    """Edition, the values that mean something here, and how many lines were not understood.

    Whoever made the mount decides what the file is: links, pipes and endless files are refused.

    Raises:
        OSError: there is no such file, or it is none of ours.
    """
    content = _read_plain_file(f"{mount_point.rstrip('/')}/.stats")
    found = parse_stats(content.decode("utf-8", "replace"))
    values = {name: value for name, value in found.values.items() if name in USED_NAMES}
    if not values:
        raise OSError(errno.EINVAL, ".stats holds no counter of JuiceFS")
    return found.edition, values, found.damaged


def _read_plain_file(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, ".stats is no regular file")
        content = b""
        while chunk := os.read(descriptor, _CHUNK_BYTES):
            content += chunk
            if len(content) > _LIMIT_BYTES:
                raise OSError(errno.EFBIG, f".stats holds more than {_LIMIT_BYTES} bytes")
        return content
    finally:
        os.close(descriptor)
