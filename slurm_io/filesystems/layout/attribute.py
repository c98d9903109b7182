"""One extended attribute of many files, in one system call each.

Python's own getxattr tries 128 bytes and then 64 KiB, which the kernel has to clear each time; the
layout of a progressive file is 200 to 1000 bytes. For such the C library is called with a buffer
that fits them. Where ctypes is missing, and for what is larger or fails, Python's own does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

_SMALL_BYTES = 128
_BUFFER_BYTES = 2048
Read = Callable[[bytes], bytes]


class AttributeReader:
    """Reads `name` of files in the working directory, without following links."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._plain: Read = partial(os.getxattr, attribute=name, follow_symlinks=False)
        self._fitting = _fitting_reader(name, self._plain)

    def way(self, likely_bytes: int) -> Read:
        """The call that is cheapest for attributes of about this size; right for all. Raises
        OSError as os.getxattr does."""
        return self._fitting if _SMALL_BYTES < likely_bytes <= _BUFFER_BYTES else self._plain


def _fitting_reader(name: str, plain: Read) -> Read:
    try:
        import ctypes

        call = ctypes.CDLL(None).lgetxattr
    except (ImportError, OSError, AttributeError):
        return plain
    call.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
    call.restype = ctypes.c_ssize_t
    buffer: Any = ctypes.create_string_buffer(_BUFFER_BYTES)
    # Made once, so that a call has to convert the file's name only.
    attribute, size = ctypes.c_char_p(name.encode()), ctypes.c_size_t(_BUFFER_BYTES)
    address = ctypes.c_void_p(ctypes.addressof(buffer))

    def read(file: bytes) -> bytes:
        length = call(file, attribute, address, size)
        # Asked a second time, Python's own raises what is wrong, or has room for a larger one.
        return buffer[:length] if length >= 0 else plain(file)

    return read
