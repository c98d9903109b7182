"""The hidden folder at a dataset's root in which files lie until they are proven.

``.slurm_io_stage/<slot>/<path>``: one slot a source, so that what a hung source may still write
never lands in a file that another one brings. A verify and a manifest's build pass the folder over.
It belongs to whoever copies and nobody else can enter it; what looks otherwise is refused, because
a user may own the folder around it. Engines get it by descriptor, which no rename leads away.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

from slurm_io.errors import HostError
from slurm_io.host.root_folders import read_file, write_file
from slurm_io.staging.beneath import Folder
from slurm_io.staging.stage.folders import make_folders, remove_entry

NAME = ".slurm_io_stage"
_VERSION = "version"
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Room:
    """An open room; its caller holds the record's lock."""

    def __init__(self, descriptor: int, root_fd: int) -> None:
        self.fd = descriptor
        self._root_fd = root_fd

    @classmethod
    def made(cls, root_fd: int, content_id: str) -> Room:
        """Open it, made where missing, without what a copy of another version left.

        Raises HostError.
        """
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(NAME, 0o700, dir_fd=root_fd)
            room = cls(_opened(root_fd), root_fd)
        except OSError as error:
            raise HostError(f"the folder {NAME} cannot be used: {error.strerror}") from error
        try:
            room._of_version(content_id)
        except OSError as error:
            room.close()
            raise HostError(f"the folder {NAME} cannot be used: {error.strerror}") from error
        return room

    @classmethod
    def found(cls, root_fd: int) -> Room | None:
        """The room as it lies there, None when there is none. Raises HostError for a false one."""
        try:
            return cls(_opened(root_fd), root_fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HostError(f"the folder {NAME} cannot be used: {error.strerror}") from error

    def slot(self, number: int) -> Folder:
        """The folder of one source. Raises OSError."""
        name = str(number).encode()
        make_folders(self.fd, name, 0o700)
        return Folder(os.open(name, _OPEN, dir_fd=self.fd))

    def leftovers(self, content_id: str) -> dict[bytes, tuple[bytes, os.stat_result]]:
        """Partly copied files of earlier runs: path -> (name of its slot, stat). Raises OSError."""
        if read_file(self.fd, _VERSION) != content_id.encode():
            return {}
        found: dict[bytes, tuple[bytes, os.stat_result]] = {}
        for slot in map(os.fsencode, os.listdir(self.fd)):
            for path, facts in _files_below(self.fd, slot):
                found[path] = slot, facts
        return found

    def newest_s(self) -> float:
        """When something in it was last written, s since the epoch. Raises OSError."""
        times = [os.fstat(self.fd).st_mtime]
        for name in map(os.fsencode, os.listdir(self.fd)):
            times.append(os.lstat(name, dir_fd=self.fd).st_mtime)
            times += [facts.st_mtime for _, facts in _files_below(self.fd, name)]
        return max(times)

    def total_bytes(self) -> int:
        """On disk. Raises OSError."""
        names = map(os.fsencode, os.listdir(self.fd))
        files = (facts for name in names for _, facts in _files_below(self.fd, name))
        return sum(facts.st_blocks * 512 for facts in files)

    def remove(self) -> int:
        """Remove it and all in it; bytes given back. Raises OSError."""
        return remove_entry(self._root_fd, NAME.encode())

    def close(self) -> None:
        """Close its descriptor."""
        os.close(self.fd)

    def _of_version(self, content_id: str) -> None:
        if read_file(self.fd, _VERSION) == content_id.encode():
            return
        for name in map(os.fsencode, os.listdir(self.fd)):
            if name != _VERSION.encode():  # until all else is gone it names the old version
                remove_entry(self.fd, name)
        write_file(self.fd, _VERSION, content_id.encode(), 0o600)


def engine_path(slot: Folder) -> str:
    """A slot as engines and their programs open it."""
    return f"/proc/{os.getpid()}/fd/{slot.fd}"


def _opened(root_fd: int) -> int:
    """Raises OSError, and HostError for a room that is not ours alone."""
    descriptor = os.open(NAME, _OPEN, dir_fd=root_fd)
    facts = os.fstat(descriptor)
    ours = facts.st_uid == os.geteuid() and not stat.S_IMODE(facts.st_mode) & 0o077
    if ours and facts.st_dev == os.fstat(root_fd).st_dev:
        return descriptor
    os.close(descriptor)
    raise HostError(
        f"{NAME} in the dataset's folder is not ours (uid {facts.st_uid}, mode "
        f"{stat.S_IMODE(facts.st_mode):o}) or on another file system: remove it"
    )


def _files_below(parent: int, name: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """(path below `name`, stat) of the regular files of a folder in an open folder."""
    try:
        folder = os.open(name, _OPEN, dir_fd=parent)
    except NotADirectoryError:
        return
    try:
        for each in map(os.fsencode, os.listdir(folder)):
            facts = os.lstat(each, dir_fd=folder)
            if stat.S_ISREG(facts.st_mode):
                yield each, facts
            elif stat.S_ISDIR(facts.st_mode):
                for path, below in _files_below(folder, each):
                    yield each + b"/" + path, below
    finally:
        os.close(folder)
