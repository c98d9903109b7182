"""Memory to read file data into. Standard library only: the prolog loads it."""

from __future__ import annotations

import contextlib
import mmap

HUGE_PAGE_BYTES = 2 << 20


def aligned_buffer(size_bytes: int) -> memoryview:
    """A buffer that begins on a page; memory is taken where it is first written to.

    O_DIRECT wants that, and copying from the page cache to an address that is not on a multiple of
    32 takes 15 % longer. A buffer of 2 MiB or more begins on a huge page, where the kernel has one:
    a device then writes to it in one piece instead of 512, which can double its rate.
    """
    if size_bytes < HUGE_PAGE_BYTES:
        return memoryview(_anonymous(size_bytes))
    import ctypes  # 2 ms that small reads need not pay

    memory = _anonymous(size_bytes + HUGE_PAGE_BYTES)
    with contextlib.suppress(OSError):  # a kernel without huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(memory)) % HUGE_PAGE_BYTES
    return memoryview(memory)[start : start + size_bytes]


def _anonymous(size_bytes: int) -> mmap.mmap:
    return mmap.mmap(-1, max(1, size_bytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
