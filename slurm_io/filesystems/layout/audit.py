"""Audits the layouts of a tree: one pass, no links followed, one file system, bounded memory.

Each directory is opened relative to its parent (a link swapped in for it is refused), becomes the
working directory, and its files are asked by their bare names: half the cost of full paths. So an
audit changes the working directory of its process while it runs and puts it back.

With several processes, each takes a part of the tree and hands back the directories it did not get
to after `CHUNK_FILES` files, so parts need not be known beforehand. That pays where the file system
answers slowly (a real Lustre), not on one in memory.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from slurm_io.filesystems.layout.attribute import AttributeReader
from slurm_io.filesystems.layout.describe import FILE_SYSTEM_DEFAULT, describe
from slurm_io.filesystems.layout.lov import parse_lov
from slurm_io.filesystems.layout.model import DirectoryDefault, LayoutError
from slurm_io.filesystems.layout.osts import OstSet
from slurm_io.filesystems.layout.policy import (
    Finding,
    Thresholds,
    judge_balance,
    judge_small_files,
)
from slurm_io.filesystems.layout.quick import QuickReader
from slurm_io.filesystems.layout.reader import ATTRIBUTES
from slurm_io.filesystems.layout.tally import MOST_KINDS, Tally

CHUNK_FILES = 20_000
_BATCH = 4096
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NO_ATTRIBUTE = (errno.ENODATA, errno.EOPNOTSUPP)
Progress = Callable[[Tally], None]


@dataclass(frozen=True)
class Question:
    """What an audit is asked. `readers`: nodes that read the tree at once. `sample_every` N looks
    at the layout of every Nth file only. `deadline_s`: end after this time (CLOCK_MONOTONIC)."""

    root: str
    readers: int
    thresholds: Thresholds = field(default_factory=Thresholds)
    osts: OstSet | None = None
    keep: int = 20
    sample_every: int = 1
    processes: int = 1
    deadline_s: float | None = None


@dataclass(frozen=True)
class Result:
    """`findings`: what breaks the policy, worst first within each kind. `cut`: why the walk ended
    before the end of the tree, None when it saw all of it."""

    tally: Tally
    findings: tuple[Finding, ...]
    wall_s: float
    cut: str | None = None


def audit(question: Question, progress: Progress | None = None) -> Result:
    """Walk the tree below `question.root` (or look at one file) and judge it.

    Raises OSError when the root itself cannot be opened.
    """
    began_s = time.monotonic()
    tally = new_tally(question)
    folders = [""]
    if stat.S_ISREG(os.stat(question.root).st_mode):
        tally.merge(Walker(question).one_file(question.root))
        folders.clear()
    elif question.processes > 1:
        _with_processes(question, tally, folders, progress)
    else:
        _in_this_process(question, tally, folders, progress)
    if tally.layouts:  # some files have one, so the first without were on no other file system
        tally.without_layout, tally.not_lustre = tally.without_layout + tally.not_lustre, 0
    cut = f"out of time: {len(folders)} directories known were not looked at" if folders else None
    return Result(tally, _findings(question, tally), time.monotonic() - began_s, cut)


class Walker:
    """Goes through directories of one tree, in one process."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._prefix = question.root.rstrip("/") + "/"
        self._quick = QuickReader()
        self._reader: AttributeReader | None = None
        self._defaults: dict[bytes, str] = {}
        self._number = 0
        self._device = -1

    def chunks(self, folders: list[str]) -> Iterator[Tally]:
        """Tallies of about `CHUNK_FILES` files each. `folders` (relative to the root) is worked
        off in place; what is left in it at the deadline was not looked at."""
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        root = os.open(self._question.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._device = os.fstat(root).st_dev
            while folders and not self._is_late():
                yield self._chunk(root, folders)
        finally:
            os.fchdir(here)
            os.close(here)
            os.close(root)

    def one_file(self, path: str) -> Tally:
        """The tally of a single file."""
        tally = new_tally(self._question)
        self._files([path], "", tally)
        return tally

    def _chunk(self, root: int, folders: list[str]) -> Tally:
        tally = new_tally(self._question)
        while folders and tally.files < CHUNK_FILES and not self._is_late():
            folder = folders.pop()
            try:
                self._enter(root, folder)
                folders.extend(self._one_folder(folder, tally))
            except OSError as error:
                tally.errors.add(f"folder: {error.strerror}", self._prefix + folder)
        return tally

    def _is_late(self) -> bool:
        deadline_s = self._question.deadline_s
        return deadline_s is not None and time.monotonic() >= deadline_s

    def _enter(self, root: int, folder: str) -> None:
        """Make a folder the working directory, refusing links on the way to it."""
        os.fchdir(root)
        for name in folder.split("/") if folder else ():
            descriptor = os.open(name, _FOLDER_FLAGS)
            try:
                if os.fstat(descriptor).st_dev != self._device:
                    raise OSError(errno.EXDEV, "another file system is mounted here: left out")
                os.fchdir(descriptor)
            finally:
                os.close(descriptor)

    def _one_folder(self, folder: str, tally: Tally) -> list[str]:
        """Count the files of the working directory; its sub-folders are returned."""
        below, files = [], []
        inside = folder + "/" if folder else ""
        prefix = self._prefix + inside
        tally.directories += 1
        with os.scandir(".") as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    files.append(entry.name)
                    if len(files) == _BATCH:
                        self._files(files, prefix, tally)
                        files.clear()
                elif entry.is_dir(follow_symlinks=False):
                    below.append(inside + entry.name)
                else:
                    tally.others += 1
        self._files(files, prefix, tally)
        self._default(prefix, tally)
        return below

    def _files(self, names: list[str], prefix: str, tally: Tally) -> None:
        """Count files of the working directory. The one hot loop of an audit."""
        tally.files += len(names)
        names = self._sampled(names, tally)
        quick, lstat, add = self._quick.read, os.lstat, tally.add
        read = self._reader.read if self._reader is not None else self._first
        wide = 0
        for name in names:
            try:
                data = read(name)
                shape, osts = quick(data)
                size_bytes = lstat(name).st_size
            except OSError as error:
                self._without(name, prefix, error, tally)
            except LayoutError as error:
                tally.errors.add(f"layout: {error}", prefix + name)
            else:
                wide += add(prefix + name, size_bytes, shape, osts, data)
        if wide:
            tally.small_wide_folders.add(prefix, wide)

    def _sampled(self, names: list[str], tally: Tally) -> list[str]:
        """Every Nth name, counted through the whole walk."""
        every = self._question.sample_every
        if every == 1:
            return names
        first = -(self._number + 1) % every
        self._number += len(names)
        chosen = names[first::every]
        tally.skipped += len(names) - len(chosen)
        return chosen

    def _first(self, name: str) -> bytes:
        """Find out which attribute this file system answers."""
        if self._reader is not None:
            return self._reader.read(name)
        first, second = (AttributeReader(attribute) for attribute in ATTRIBUTES)
        try:
            data = first.read(name)
            self._reader = first
        except OSError as error:
            if error.errno not in _NO_ATTRIBUTE:
                raise
            try:
                data = second.read(name)
            except OSError:
                raise error from None  # what lustre.lov said tells more
            self._reader = second
        return data

    def _without(self, name: str, prefix: str, error: OSError, tally: Tally) -> None:
        """A file whose layout could not be read."""
        if error.errno == errno.ENODATA:
            tally.without_layout += 1
        elif error.errno in _NO_ATTRIBUTE:
            tally.not_lustre += 1
        elif error.errno in (errno.ERANGE, errno.E2BIG):
            tally.errors.add("layout: larger than 64 KiB: ask lfs getstripe", prefix + name)
        elif error.errno != errno.ENOENT:  # removed while we walk: nothing to tell
            tally.errors.add(f"file: {error.strerror}", prefix + name)

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


def new_tally(question: Question) -> Tally:
    """An empty tally for this question."""
    active = question.osts.count if question.osts is not None else None
    return Tally(question.thresholds, question.readers, active, question.keep)


def _in_this_process(
    question: Question, tally: Tally, folders: list[str], progress: Progress | None
) -> None:
    for part in Walker(question).chunks(folders):
        tally.merge(part)
        if progress is not None:
            progress(tally)


def one_part(question: Question, folders: list[str]) -> tuple[Tally, list[str]]:
    """One chunk, in a process of the pool: its tally and the folders it did not get to."""
    for tally in Walker(question).chunks(folders):
        return tally, folders
    return new_tally(question), folders


def _with_processes(
    question: Question, tally: Tally, folders: list[str], progress: Progress | None
) -> None:
    import multiprocessing
    from concurrent import futures

    context = multiprocessing.get_context("spawn")
    with futures.ProcessPoolExecutor(question.processes, mp_context=context) as pool:
        running = {pool.submit(one_part, question, folders.copy())}
        folders.clear()
        while running:
            done, running = futures.wait(running, return_when=futures.FIRST_COMPLETED)
            for part, left in (each.result() for each in done):
                tally.merge(part)
                if progress is not None:
                    progress(tally)
                if _is_late(question):
                    folders.extend(left)
                else:
                    running |= {
                        pool.submit(one_part, question, share)
                        for share in _shares(left, question.processes)
                    }


def _is_late(question: Question) -> bool:
    return question.deadline_s is not None and time.monotonic() >= question.deadline_s


def _shares(folders: list[str], count: int) -> list[list[str]]:
    """Folders dealt out to at most `count` non-empty lists."""
    return [share for number in range(count) if (share := folders[number::count])]


def _findings(question: Question, tally: Tally) -> tuple[Finding, ...]:
    limits = question.thresholds
    found = [finding for top in tally.broken.values() for finding in top.findings()]
    small = judge_small_files(question.root, tally.small_wide, limits)
    active = question.osts.active if question.osts is not None else None
    balance = judge_balance(question.root, tally.ost_objects, tally.ost_bytes, active, limits)
    return (*found, *(each for each in (small, balance) if each is not None))
