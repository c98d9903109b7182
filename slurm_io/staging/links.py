"""What symbolic links below a folder lead to, where that lies below the same folder.

A link is read, not followed: its text is walked name by name from open folders, and whatever would
leave the folder ends there, so that nothing outside is ever touched, be it a dead mount or another
user's secret. What comes out is a path without links, opened as any other: one that was swapped
meanwhile fails to open. Building a manifest and verifying a copy go by this one rule.

Standard library only: the prolog loads it.
"""

from __future__ import annotations

import errno
import os
import stat
from types import TracebackType
from typing import Self

from slurm_io.staging.beneath import Folder, NotAFile, open_regular

MOST_FOLLOWED = 40  # as the kernel; a link to itself ends here
_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


class LinksInside:
    """The links below one folder. Not for several threads at once.

    An absolute link counts as inside when its text begins with the folder's own path: the real one,
    or `path`, by which it was opened.
    """

    def __init__(self, root_fd: int, path: str | bytes = b"") -> None:
        """`root_fd` stays the caller's. Raises OSError."""
        self._folder = Folder(os.dup(root_fd))
        real = os.readlink(f"/proc/self/fd/{root_fd}".encode())
        self._root_names = [name for name in real.split(b"/") if name]
        given = os.path.abspath(os.fsencode(path)) if path else real
        self._roots = tuple(dict.fromkeys(root.rstrip(b"/") for root in (real, given)))

    def close(self) -> None:
        """Close every descriptor."""
        self._folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def target(self, link: bytes) -> bytes | None:
        """The path without links that the link at `link` leads to; None: out of the folder, or
        nowhere. Both are relative to the folder. Raises OSError for what cannot be looked at."""
        try:
            return self._walk(link)
        except OSError as error:
            if error.errno in _NOWHERE:
                return None
            raise

    def look(self, link: bytes) -> tuple[bytes, os.stat_result]:
        """Path and stat of the regular file that a link leads to. Raises NotAFile, OSError."""
        target = self._target(link)
        found = self._folder.stat(target)
        if not stat.S_ISREG(found.st_mode):
            raise NotAFile("a symbolic link to something that is no regular file")
        return target, found

    def open(self, link: bytes) -> tuple[int, os.stat_result]:
        """The regular file that a link leads to, and its stat. Raises NotAFile, OSError."""
        folder, _, name = self._target(link).rpartition(b"/")
        return open_regular(self._folder.folder_fd(folder), name)

    def _target(self, link: bytes) -> bytes:
        target = self.target(link)
        if target is None:
            raise NotAFile("a symbolic link that leads out of the folder or nowhere")
        return target

    def _walk(self, link: bytes) -> bytes | None:
        *here, name = link.split(b"/")
        todo, above, followed = [name], 0, 0
        while todo:
            name = todo.pop()
            if name in (b"", b"."):
                continue
            if name == b"..":
                above = min(above + (not here), len(self._root_names))
                del here[-1:]
            elif above:  # a way back into the folder is known without a look at anything above
                if name != self._root_names[-above]:
                    return None
                above -= 1
            elif (text := self._text_of(here, name, bool(todo))) is None:
                here.append(name)
            else:
                followed += 1
                below = self._below(text) if text.startswith(b"/") else text
                if below is None or followed > MOST_FOLLOWED:
                    return None
                here = [] if text.startswith(b"/") else here
                todo += reversed(below.split(b"/"))
        return b"/".join(here) if here and not above else None

    def _text_of(self, here: list[bytes], name: bytes, must_be_folder: bool) -> bytes | None:
        """A link's text; None for what is no link. Raises OSError."""
        folder = self._folder.folder_fd(b"/".join(here))
        found = os.lstat(name, dir_fd=folder)
        if stat.S_ISLNK(found.st_mode):
            return os.readlink(name, dir_fd=folder)
        if must_be_folder and not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return None

    def _below(self, text: bytes) -> bytes | None:
        """What of an absolute link's text lies below the folder."""
        for root in self._roots:
            if text.startswith(root + b"/"):
                return text[len(root) + 1 :]
        return None
