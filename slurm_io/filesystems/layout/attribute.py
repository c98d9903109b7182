"""One extended attribute of many files, in one system call each.

Python's own getxattr tries 128 bytes and then 64 KiB, which the kernel has to clear each time; the
layout of a progressive file is 200 to 1000 bytes. So once one was larger than 128 bytes, the C
library is called with a buffer that fits them. Where ctypes is missing, Python's own does.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

_SMALL_BYTES = 128
_BUFFER_BYTES = 2048
Read = Callable[[str], bytes]


class AttributeReader:
    """Reads `name` of files in the working directory, without following links."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._direct = _direct_reader(name)
        self._prefers_direct = False

    def read(self, file: str) -> bytes:
        """The attribute's bytes. Raises OSError as os.getxattr does."""
        if self._prefers_direct and self._direct is not None:
            return self._direct(file)
        data = os.getxattr(file, self.name, follow_symlinks=False)
        self._prefers_direct = len(data) > _SMALL_BYTES
        return data


def _direct_reader(name: str) -> Read | None:
    try:
        import ctypes

        call = ctypes.CDLL(None, use_errno=True).lgetxattr
    except (ImportError, OSError, AttributeError):
        return None
    call.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
    call.restype = ctypes.c_ssize_t
    buffer = ctypes.create_string_buffer(_BUFFER_BYTES)
    address, view = ctypes.addressof(buffer), memoryview(buffer).cast("B")
    attribute, encode, get_errno = name.encode(), os.fsencode, ctypes.get_errno

    def read(file: str) -> bytes:
        size = call(encode(file), attribute, address, _BUFFER_BYTES)
        if size >= 0:
            return view[:size].tobytes()
        number = get_errno()
        if number == errno.ERANGE:
            return os.getxattr(file, name, follow_symlinks=False)
        raise OSError(number, os.strerror(number), file)

    return read
