"""Files of the right size that this node never proved: hashed where they lie."""

from __future__ import annotations

import stat
import threading
import time
from collections.abc import Sequence

from slurm_io.staging.beneath import Folder
from slurm_io.staging.manifest.hashing import TICK_NS
from slurm_io.staging.manifest.paths import encode_path
from slurm_io.staging.stage.book import Book
from slurm_io.staging.stage.draft import Draft
from slurm_io.staging.stage.proving import prove
from slurm_io.staging.verify.l1 import stamp_of
from slurm_io.staging.verify.model import BadFile
from slurm_io.staging.verify.table import Stamp
from slurm_io.staging.verify.work import Progress

AT_ONCE = 1000


def look(
    found: Draft, tree: Folder, book: Book, stop: threading.Event, progress: Progress | None
) -> dict[int, BadFile]:
    """The bad ones; the good ones are entered in the book."""
    bad: dict[int, BadFile] = {}
    unproven = found.survey.unproven
    for start in range(0, len(unproven), AT_ONCE):
        if stop.is_set():
            break
        bad |= _some(found, tree, book, stop, unproven[start : start + AT_ONCE], progress)
    return bad


def _some(
    found: Draft,
    tree: Folder,
    book: Book,
    stop: threading.Event,
    indices: Sequence[int],
    progress: Progress | None,
) -> dict[int, BadFile]:
    files, header = found.expected.files, found.manifest.header
    before = {index: _stamp(tree, files[index].path) for index in indices}
    # What changes within the clock's tick keeps its time stamp.
    settled_ns = time.time_ns() - TICK_NS
    links_of = found.order.path if header.links is not None else None
    proven = prove(
        tree, header, [files[i] for i in indices], stop, 0, progress=progress, links_of=links_of
    )
    book.from_cache(proven.bytes_from_cache)
    for index in indices:
        stamp = before[index]
        if files[index].path not in proven.right or stamp is None or stamp[3] > settled_ns:
            continue
        if _stamp(tree, files[index].path) == stamp:
            book.prove(index, stamp)
    return {
        index: proven.bad[files[index].path] for index in indices if files[index].path in proven.bad
    }


def _stamp(tree: Folder, path: str) -> Stamp | None:
    """Of a regular file; None for what the last verify shall look at itself."""
    try:
        found = tree.stat(encode_path(path))
    except OSError:
        return None
    stamp: Stamp = stamp_of(found)
    return stamp if stat.S_ISREG(found.st_mode) else None
