"""Level 1: stat of every file, and nothing that does not belong there.

Against this node's record (inode, size, mtime_ns, ctime_ns) where there is one: a file that was
replaced or touched since shows, because no ordinary write can put a ctime back. Else against the
manifest's sizes: mtime is never compared with a manifest, since each way of copying sets its own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from slurm_io.staging.beneath import NotAFile, kind_of_entry
from slurm_io.staging.manifest.paths import decode_path, printable
from slurm_io.staging.verify.model import Why
from slurm_io.staging.verify.table import KNOWN_BAD, Segment, Stamp
from slurm_io.staging.verify.work import Work, join

if TYPE_CHECKING:
    from slurm_io.staging.links import LinksInside

LEVEL = 1
CLOCK_EVERY = 512
SPREAD_LISTING = 65536
"""Folders of more files are counted entry by entry instead of listed at once."""
stamp_of = attrgetter("st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")


def run(work: Work) -> bool:
    """Stat all; False when the time was over before."""
    present = 0
    for segment in work.expected.segments():
        if work.deadline.over():
            return _cut(work)
        try:
            folder = work.tree.folder_fd(segment.folder)
        except OSError as error:
            _whole_folder(work, segment, error)
            continue
        found = _files(work, segment, folder)
        if found is None:
            return _cut(work)
        present += found
        if segment.last:
            _others(work, segment, folder, present)
            present = 0
        work.progress(LEVEL, segment.first + len(segment.names), work.expected.count)
    for path in work.tree.finish():
        work.bad(path, "swapped", LEVEL, "the folder was replaced while it was looked at")
    return True


def _cut(work: Work) -> bool:
    left = work.expected.count - work.files_stated
    work.note(f"level 1: the time was over with {left} of {work.expected.count} files to go")
    return False


def _files(work: Work, segment: Segment, folder: int) -> int | None:
    """How many of a segment's files are there; None when the time was over."""
    if work.proof is not None:
        return _files_for_proof(work, segment, folder)
    if segment.stamps is None:
        return _files_by_size(work, segment, folder)
    return _files_by_stamp(work, segment, folder, segment.stamps)


def _files_by_stamp(
    work: Work, segment: Segment, folder: int, stamps: Iterable[Stamp]
) -> int | None:
    """The hot loop: one lstat and one comparison of tuples a file."""
    lstat, key, missing = os.lstat, stamp_of, 0
    wanted = iter(stamps)
    for start, names in _slices(segment.names):
        if work.deadline.over():
            return None
        for position, (name, want) in enumerate(
            zip(names, islice(wanted, len(names)), strict=True), start
        ):
            try:
                if key(lstat(name, dir_fd=folder)) != want:
                    missing += _differs(work, segment, position, folder, want)
            except OSError as error:
                missing += _absent(work, segment, position, error)
        work.files_stated += len(names)
    return len(segment.names) - missing


def _files_by_size(work: Work, segment: Segment, folder: int) -> int | None:
    missing, links = 0, work.links
    for start, names in _slices(segment.names):
        if work.deadline.over():
            return None
        for position, name in enumerate(names, start):
            try:
                found = os.lstat(name, dir_fd=folder)
                if links is not None and stat.S_ISLNK(found.st_mode):
                    found = _followed(links, segment, position, found)
            except OSError as error:
                missing += _absent(work, segment, position, error)
                continue
            if found.st_size != segment.sizes[position] or not stat.S_ISREG(found.st_mode):
                _wrong_size(work, segment, position, found)
        work.files_stated += len(names)
    return len(segment.names) - missing


def _files_for_proof(work: Work, segment: Segment, folder: int) -> int | None:
    """Slower: keeps what was seen, for the record."""
    assert work.proof is not None
    missing, links = 0, work.links
    wanted = iter(segment.stamps) if segment.stamps is not None else None
    for start, names in _slices(segment.names):
        if work.deadline.over():
            return None
        for position, name in enumerate(names, start):
            want = next(wanted) if wanted is not None else None
            try:
                found = os.lstat(name, dir_fd=folder)
                if links is not None and stat.S_ISLNK(found.st_mode):
                    found = _followed(links, segment, position, found)
            except OSError as error:
                missing += _absent(work, segment, position, error)
                continue
            stamp = stamp_of(found)
            # What changed keeps its old stamp: only a full hash can prove the new state.
            work.proof.see(segment.first + position, want or stamp, known=want is not None)
            if want is not None and stamp != want:
                _differs(work, segment, position, folder, want)
            elif want is None and (
                found.st_size != segment.sizes[position] or not stat.S_ISREG(found.st_mode)
            ):
                _wrong_size(work, segment, position, found)
        work.files_stated += len(names)
    return len(segment.names) - missing


def _slices(names: Sequence[bytes]) -> Iterator[tuple[int, Sequence[bytes]]]:
    for start in range(0, len(names), CLOCK_EVERY):
        yield start, names[start : start + CLOCK_EVERY]


def _followed(
    links: LinksInside, segment: Segment, position: int, link: os.stat_result
) -> os.stat_result:
    """The file that a link inside the folder leads to; the link itself when it leads elsewhere.

    Raises OSError.
    """
    try:
        return links.look(join(segment.folder, segment.names[position]))[1]
    except NotAFile:
        return link


def _absent(work: Work, segment: Segment, position: int, error: OSError) -> int:
    """Report a file that cannot be looked at; 1 when it is not there."""
    gone = isinstance(error, FileNotFoundError)
    why: Why = "missing" if gone else "unreadable"
    detail = "" if gone else error.strerror or str(error)
    _bad(work, segment, position, why, detail)
    return int(gone)


def _differs(work: Work, segment: Segment, position: int, folder: int, want: Stamp) -> int:
    """Say how a file differs from its stamp; 1 when it is gone by now."""
    try:
        found = os.lstat(segment.names[position], dir_fd=folder)
        if work.links is not None and stat.S_ISLNK(found.st_mode):
            found = _followed(work.links, segment, position, found)
    except OSError as error:
        return _absent(work, segment, position, error)
    if stamp_of(found) == want:
        return 0
    if not want[0]:
        _never_proven(work, segment, position, found, want[1])
    elif found.st_size != want[1] or not stat.S_ISREG(found.st_mode):
        _wrong_size(work, segment, position, found, want[1])
    elif (found.st_ino, found.st_mtime_ns) != (want[0], want[2]):
        which = "another file" if found.st_ino != want[0] else "written to"
        _bad(work, segment, position, "changed", f"same size, {which} since it was verified here")
    elif found.st_ctime_ns != want[3]:
        detail = "ctime moved since it was verified here: chmod, chown, link or mtime put back"
        _bad(work, segment, position, "touched", detail)
    return 0


def _never_proven(
    work: Work, segment: Segment, position: int, found: os.stat_result, size: int
) -> None:
    """A file whose stamp the record does not hold, because it could not be proven."""
    if found.st_size != size or not stat.S_ISREG(found.st_mode):
        _wrong_size(work, segment, position, found, size)
        return
    _, row = next(iter(work.expected.rows([segment.first + position])))
    if row.level == KNOWN_BAD:
        detail = "was bad when this node last verified it: verify again after a repair"
        _bad(work, segment, position, "known bad", detail)
    else:
        work.note("files written while they were verified: the record proves nothing of them")


def _wrong_size(
    work: Work,
    segment: Segment,
    position: int,
    found: os.stat_result,
    want: int | None = None,
) -> None:
    if not stat.S_ISREG(found.st_mode):
        is_refused = work.links is not None and stat.S_ISLNK(found.st_mode)
        where = ", not to a file inside the folder" if is_refused else ""
        detail = f"is {kind_of_entry(found.st_mode)}{where}"
        _bad(work, segment, position, "not a file", detail)
        return
    size = segment.sizes[position] if want is None else want
    if size is None:
        work.note("files whose size the manifest does not give: their sizes were not compared")
        return
    why: Why = "truncated" if found.st_size < size else "longer"
    _bad(work, segment, position, why, f"{found.st_size} bytes instead of {size}")


def _bad(work: Work, segment: Segment, position: int, why: Why, detail: str) -> None:
    path = join(segment.folder, segment.names[position])
    work.bad(path, why, LEVEL, detail, segment.first + position)


def _whole_folder(work: Work, segment: Segment, error: OSError) -> None:
    """None of a folder's files can be reached."""
    gone = isinstance(error, FileNotFoundError)
    linked = isinstance(error, NotADirectoryError) or error.errno == 40  # ELOOP
    why: Why = "missing" if gone else "not a file" if linked else "unreadable"
    folder = printable(decode_path(segment.folder))
    words = "is missing" if gone else "is a link or no folder" if linked else error.strerror
    for position in range(len(segment.names)):
        _bad(work, segment, position, why, f"its folder {folder} {words}")
    work.files_stated += len(segment.names)


def _others(work: Work, segment: Segment, folder: int, present: int) -> None:
    """Report what else is in a folder of which `present` expected files are there."""
    for name in segment.subfolders:
        try:
            os.lstat(name, dir_fd=folder)
            present += 1
        except OSError:
            pass  # its own segment says so
    if _count_entries(folder, present) == present:
        return
    known = _names_of_folder(work, segment)
    for name in map(os.fsencode, os.listdir(folder)):
        if name not in known:
            _extra(work, join(segment.folder, name), name, folder, known)


def _count_entries(folder: int, present: int) -> int:
    if present < SPREAD_LISTING:
        return len(os.listdir(folder))
    with os.scandir(folder) as entries:
        return sum(1 for _ in entries)


def _names_of_folder(work: Work, segment: Segment) -> set[bytes]:
    """Every expected name of a segment's folder."""
    known = {*segment.names, *segment.subfolders}
    if segment.first and len(segment.names) < work.expected.count:
        for other in work.expected.segments():
            if other.first >= segment.first:
                break
            if other.folder == segment.folder:
                known.update(other.names)
    return known


def _extra(work: Work, path: bytes, name: bytes, descriptor: int, known: set[bytes]) -> None:
    from slurm_io.staging.verify.debris import kind_of_extra  # 3 ms that few pay

    try:
        found = os.lstat(name, dir_fd=descriptor)
    except OSError:
        return  # gone again: a copy that goes on
    is_folder = stat.S_ISDIR(found.st_mode)
    kind = kind_of_extra(path, is_folder, known)
    if kind == "own" or path in work.options.ignore:
        return
    if kind == "debris":
        work.findings.debris_bytes += found.st_blocks * 512
    regular = stat.S_ISREG(found.st_mode)
    detail = f"{found.st_size} bytes" if regular else kind_of_entry(found.st_mode)
    work.bad(path, kind, LEVEL, detail)
