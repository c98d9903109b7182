"""Goes through the directories of a tree and counts how their files are laid out.

Each directory becomes the working directory, and its files are asked by their bare names: half the
cost of full paths. So a walk changes the working directory of its process while it runs and puts it
back. Names stay bytes; a path is made of them only where it is told.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator

from slurm_io.filesystems.layout.attribute import AttributeReader
from slurm_io.filesystems.layout.describe import FILE_SYSTEM_DEFAULT, describe
from slurm_io.filesystems.layout.lov import parse_lov
from slurm_io.filesystems.layout.model import DirectoryDefault, LayoutError
from slurm_io.filesystems.layout.question import Question
from slurm_io.filesystems.layout.quick import QuickReader
from slurm_io.filesystems.layout.reader import ATTRIBUTES
from slurm_io.filesystems.layout.tally import MOST_KINDS, Tally
from slurm_io.filesystems.layout.trail import Trail
from slurm_io.filesystems.layout.waiting import Waiting
from slurm_io.filesystems.mounts import read_mounts

CHUNK_FILES = 20_000
_BATCH = 512  # of which each may have a layout of 64 KiB
_NO_ATTRIBUTE = (errno.ENODATA, errno.EOPNOTSUPP)


class Walker:
    """Goes through directories of one tree, in one process."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._prefix = question.root.rstrip("/") + "/"
        self._quick = QuickReader()
        self._candidates = [AttributeReader(attribute) for attribute in ATTRIBUTES]
        self._reader: AttributeReader | None = None
        self._likely_bytes = 0
        self._defaults: dict[bytes, str] = {}
        self._number = 0

    def chunks(self, waiting: Waiting, most_files: int = CHUNK_FILES) -> Iterator[Tally]:
        """Tallies of `most_files` files or a folder more. `waiting` is worked off in place; what is
        left in it at the deadline was not looked at, or not to its end."""
        with _working_directory_put_back():
            trail = Trail(self._question.root, _mounts_below(self._prefix))
            with contextlib.closing(trail):
                while waiting and not is_late(self._question):
                    yield self._chunk(trail, waiting, most_files)

    def one_file(self, path: str) -> Tally:
        """The tally of a single file."""
        tally = Tally(self._question.use, self._question.keep)
        self._files([os.fsencode(path)], "", tally)
        return tally

    def _chunk(self, trail: Trail, waiting: Waiting, most_files: int) -> Tally:
        tally = Tally(self._question.use, self._question.keep)
        while waiting and tally.files < most_files and not is_late(self._question):
            folder = waiting.last()
            try:
                trail.enter(folder)
                self._one_folder(folder, waiting, tally)
            except OSError as error:
                tally.errors.add(f"folder: {error.strerror}", self._prefix + os.fsdecode(folder))
        return tally

    def _one_folder(self, folder: bytes, waiting: Waiting, tally: Tally) -> None:
        """Count the files of the working directory; its sub-folders are kept for later."""
        inside = folder + b"/" if folder else b""
        prefix = self._prefix + os.fsdecode(inside)
        files: list[bytes] = []
        tally.directories += 1
        with os.scandir(b".") as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    files.append(entry.name)
                    if len(files) == _BATCH:
                        self._files(files, prefix, tally)
                        files.clear()
                        if is_late(self._question):
                            waiting.add(folder)
                            return
                elif entry.is_dir(follow_symlinks=False):
                    waiting.add(inside + entry.name)
                else:
                    tally.others += 1
        self._files(files, prefix, tally)
        self._default(prefix, tally)

    def _files(self, names: list[bytes], prefix: str, tally: Tally) -> None:
        """Count files of the working directory. System calls and judgement take turns by batches:
        by files, each would drive the other's code out of the processor's caches."""
        tally.files += len(names)
        quick, add, wide = self._quick.read, tally.add, 0
        for name, data, size_bytes in self._ask(self._sampled(names, tally), prefix, tally):
            try:
                shape, osts = quick(data)
            except LayoutError as error:
                reason = str(error).removeprefix("the layout: ")
                tally.errors.add(f"layout: {reason}", prefix + os.fsdecode(name))
            else:
                wide += add(prefix, name, size_bytes, shape, osts, data)
        if wide:
            tally.add_small_wide(prefix, wide)

    def _ask(self, names: list[bytes], prefix: str, tally: Tally) -> list[tuple[bytes, bytes, int]]:
        """Name, layout and size of each file that has a layout."""
        lstat, found = os.lstat, []
        read = self._first if self._reader is None else self._reader.way(self._likely_bytes)
        for name in names:
            try:
                found.append((name, read(name), lstat(name).st_size))
            except OSError as error:
                self._without(name, prefix, error, tally)
        if found:
            self._likely_bytes = len(found[-1][1])
        return found

    def _sampled(self, names: list[bytes], tally: Tally) -> list[bytes]:
        """Every Nth name, counted through the whole walk."""
        every = self._question.sample_every
        if every == 1:
            return names
        first = -(self._number + 1) % every
        self._number += len(names)
        chosen = names[first::every]
        tally.skipped += len(names) - len(chosen)
        return chosen

    def _first(self, name: bytes) -> bytes:
        """Find out which attribute this file system answers."""
        if self._reader is not None:
            return self._reader.way(self._likely_bytes)(name)
        first, second = self._candidates
        try:
            data = first.way(0)(name)
            self._reader = first
        except OSError as error:
            if error.errno not in _NO_ATTRIBUTE:
                raise
            try:
                data = second.way(0)(name)
            except OSError:
                raise error from None  # what lustre.lov said tells more
            self._reader = second
        self._likely_bytes = len(data)
        return data

    def _without(self, name: bytes, prefix: str, error: OSError, tally: Tally) -> None:
        """A file whose layout could not be read."""
        if error.errno == errno.ENODATA:
            tally.without_layout += 1
        elif error.errno in _NO_ATTRIBUTE:
            tally.not_lustre += 1
        elif error.errno in (errno.ERANGE, errno.E2BIG):
            word = "layout: larger than 64 KiB: ask lfs getstripe"
            tally.errors.add(word, prefix + os.fsdecode(name))
        elif error.errno != errno.ENOENT:  # removed while we walk: nothing to tell
            tally.errors.add(f"file: {error.strerror}", prefix + os.fsdecode(name))

    def _default(self, prefix: str, tally: Tally) -> None:
        """Count what new files of the working directory get."""
        for attribute in ATTRIBUTES if self._reader is None else (self._reader.name,):
            try:
                data = os.getxattr(".", attribute, follow_symlinks=False)
            except OSError as error:
                if error.errno == errno.ENODATA and self._reader is not None:
                    tally.defaults.add(FILE_SYSTEM_DEFAULT, prefix)
                continue
            tally.defaults.add(self._default_words(data), prefix)
            return

    def _default_words(self, data: bytes) -> str:
        words = self._defaults.get(data)
        if words is None:
            try:
                layout = parse_lov(data, is_directory=True)
                default = DirectoryDefault(layout)
                words = FILE_SYSTEM_DEFAULT if default.is_file_system_default else describe(layout)
            except LayoutError as error:
                words = f"unreadable: {error}"
            if len(self._defaults) < MOST_KINDS:
                self._defaults[data] = words
        return words


def is_late(question: Question) -> bool:
    """Is the time over?"""
    return question.deadline_s is not None and time.monotonic() >= question.deadline_s


@contextlib.contextmanager
def _working_directory_put_back() -> Iterator[None]:
    """Where it may not be entered again (another user's, left by `sudo -u`), it stays elsewhere."""
    try:
        here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.fchdir(here)
        os.close(here)


def _mounts_below(prefix: str) -> frozenset[bytes]:
    """Where something is mounted below a folder, relative to it; `prefix` ends with a slash."""
    points = (mount.mount_point for mount in read_mounts())
    return frozenset(
        os.fsencode(point[len(prefix) :])
        for point in points
        if point.startswith(prefix) and len(point) > len(prefix)
    )
