"""libnvidia-ml.so.1: found in fixed places only, one Python callable for each of its functions.

The sampler may be root's. So the library is never searched by name (LD_LIBRARY_PATH, ld.so.cache)
and nothing of a job's environment or of the current folder is looked at: only the places below,
each file and every folder above it owned by root and closed to others. A user's own sampler has
no more rights than the user, so there the loader's own search comes last.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Callable

from slurm_io.errors import HostError
from slurm_io.gpus.model import Mark, Shared
from slurm_io.gpus.nvml.errors import FUNCTION_NOT_FOUND, NvmlError
from slurm_io.gpus.nvml.functions import number_of
from slurm_io.host.root_folders import trusted_folder

SONAME = "libnvidia-ml.so.1"
PATHS = (
    "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",  # Debian, Ubuntu, containers of them
    "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
    "/usr/lib64/libnvidia-ml.so.1",  # RHEL, SUSE
    "/usr/lib/libnvidia-ml.so.1",
    "/usr/lib/nvidia/libnvidia-ml.so.1",
    "/usr/lib64/nvidia/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",  # a driver in a container
    "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    "/opt/nvidia/lib64/libnvidia-ml.so.1",
    "/run/opengl-driver/lib/libnvidia-ml.so.1",  # NixOS
)

Call = Callable[..., None]


def find_library(paths: tuple[str, ...] | None = None) -> str:
    """Path of the library to load; :data:`SONAME` alone leaves the search to the loader, which
    happens only in a user's own process. HostError says why there is none."""
    refused = []
    for path in PATHS if paths is None else paths:
        if not os.path.exists(path):
            continue
        if os.geteuid() != 0:
            return path
        try:
            return _trusted(path)
        except HostError as error:
            refused.append(str(error))
    if os.geteuid() != 0:
        return SONAME
    raise HostError(refused[0] if refused else f"there is no {SONAME} in any of its usual places")


class Library:
    """The loaded library. Raises HostError when it cannot be loaded."""

    def __init__(self, path: str, mark: Mark) -> None:
        self.path = path
        self._shared = mark.shared
        try:
            self._dll = ctypes.CDLL(path)
        except OSError as error:
            raise HostError(f"cannot load {path}: {error}") from error

    def function(self, *names: str) -> Call:
        """The first of `names` that this library has, as a callable that raises NvmlError.

        With none of them every call fails with "function not found": an old driver costs its
        columns, nothing else.
        """
        for name in names:
            try:
                pointer = getattr(self._dll, name)
            except AttributeError:
                continue
            return _checked(pointer, name, number_of(name), self._shared)
        return _absent(names[0])


def _checked(pointer: Callable[..., int], name: str, number: int, shared: Shared) -> Call:
    def call(*arguments: object) -> None:
        shared[1] = number
        code = pointer(*arguments)
        if code:
            raise NvmlError(code, name)

    return call


def _absent(name: str) -> Call:
    def call(*_arguments: object) -> None:
        raise NvmlError(FUNCTION_NOT_FOUND, name)

    return call


def _trusted(path: str) -> str:
    """The file that `path` leads to, if nobody but root can change it."""
    real = os.path.realpath(path)
    folder, name = os.path.split(real)
    with trusted_folder(folder) as descriptor:
        facts = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    others_write = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if facts.st_uid != 0 or others_write or not stat.S_ISREG(facts.st_mode):
        raise HostError(f"{real} is not loaded: it must be root's and closed to others")
    return real
