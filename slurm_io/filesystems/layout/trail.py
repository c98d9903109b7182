"""The way from the root of a walk to the folder it is in, as open descriptors.

Each folder is opened relative to the one above it and never through a link, so a link or another
mount swapped in is refused and the length of a path does not matter. The next folder is most often
a neighbour, so the folders above stay open: one open call leads there, not one per level.
"""

from __future__ import annotations

import errno
import os

MOST_LEVELS = 200  # of about 1000 descriptors that a process may have open
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Trail:
    """Folders below `root`, a path without links. `mounts`: paths relative to the root at which
    something else is mounted (a bind mount may be of the same file system).

    Raises OSError when the root cannot be opened.
    """

    def __init__(self, root: str, mounts: frozenset[bytes] = frozenset()) -> None:
        self._mounts = mounts
        self._names: list[bytes] = []
        self._open = [os.open(root, _FOLDER_FLAGS)]
        self._device = os.fstat(self._open[0]).st_dev

    def close(self) -> None:
        """Close all of it. The working directory stays the folder entered last."""
        for descriptor in self._open:
            os.close(descriptor)

    def enter(self, folder: bytes) -> None:
        """Make a folder (relative to the root, b"" for the root) the working directory.

        Raises OSError when it cannot be opened, is no folder any more, lies on another mount, or is
        nested deeper than `MOST_LEVELS`.
        """
        names = folder.split(b"/") if folder else []
        if len(names) > MOST_LEVELS:
            raise OSError(errno.ELOOP, f"nested deeper than {MOST_LEVELS} levels: left out")
        if folder in self._mounts:
            raise OSError(errno.EXDEV, "something else is mounted here: left out")
        self._go_back_to(_in_common(self._names, names))
        for name in names[len(self._names) :]:
            self._step(name)
        os.fchdir(self._open[-1])

    def _go_back_to(self, level: int) -> None:
        while len(self._names) > level:
            self._names.pop()
            os.close(self._open.pop())

    def _step(self, name: bytes) -> None:
        descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=self._open[-1])
        if os.fstat(descriptor).st_dev != self._device:
            os.close(descriptor)
            raise OSError(errno.EXDEV, "another file system is mounted here: left out")
        self._names.append(name)
        self._open.append(descriptor)


def _in_common(some: list[bytes], others: list[bytes]) -> int:
    """How many names two paths begin with together."""
    count = 0
    for mine, theirs in zip(some, others, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
