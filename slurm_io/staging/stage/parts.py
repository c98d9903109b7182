"""Partly copied files in the room: found, moved to who goes on with them, cut to what is good."""

from __future__ import annotations

import os
import stat

from slurm_io.staging.beneath import Folder
from slurm_io.staging.manifest.paths import encode_path
from slurm_io.staging.stage.engines.base import Engine
from slurm_io.staging.stage.folders import entered
from slurm_io.staging.stage.ground import Ground
from slurm_io.staging.stage.pieces import (
    bad_ranges,
    cut,
    discard,
    good_prefix,
    has_chunks,
    salvage,
)
from slurm_io.staging.stage.sharing import Item


class Parts:
    """Of one lane, whose slot has this number."""

    def __init__(self, number: int, slot: Folder, tree: Folder, ground: Ground) -> None:
        self._name = str(number).encode()
        self._slot = slot
        self._tree = tree
        self._ground = ground

    def prepare(self, item: Item, engine: Engine) -> bool:
        """Lay ready what is there of a file; whether there is anything. Raises OSError."""
        header, entry = self._ground.header, item.entry
        entered(self._slot, encode_path(entry.path).rpartition(b"/")[0], 0o700)
        mends = hasattr(engine, "fetch_ranges")
        if item.slot is None:
            if not (item.salvage and item.ranges and mends):
                item.ranges = None
                return False
            salvage(self._tree, self._slot, entry, item.ranges)
            item.slot, item.salvage = self._name, False
        elif item.slot != self._name:
            self._move_here(item)
        if item.ranges is None and has_chunks(header, entry):
            item.ranges = bad_ranges(self._slot, header, entry)
        self._cut(item, mends)
        return True

    def _cut(self, item: Item, mends: bool) -> None:
        """Leave what is good in one piece, and nothing behind the file's end."""
        size = item.entry.size_bytes
        if size is None:
            return
        if item.ranges and not mends:
            size = good_prefix(item.ranges, size)
        cut(self._slot, item.entry, size)

    def keep(self, item: Item, ranges: tuple[tuple[int, int], ...] | None) -> None:
        """After a failure: what lies there is kept where its good pieces can be told, or where the
        engine merely did not come to its end (`ranges` None). Raises nothing."""
        item.slot, item.ranges = None, None
        if ranges == () or not self._is_ours(item):
            self._discard(item)
            return
        item.slot, item.ranges = self._name, ranges

    def _is_ours(self, item: Item) -> bool:
        """Whether a regular file of its own lies there."""
        try:
            facts = self._slot.stat(encode_path(item.entry.path))
        except OSError:
            return False
        return stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1

    def _discard(self, item: Item) -> None:
        try:
            discard(self._slot, item.entry)
        except OSError as error:
            self._ground.book.note(f"a partly copied file could not be removed: {error.strerror}")

    def _move_here(self, item: Item) -> None:
        assert item.slot is not None
        raw = encode_path(item.entry.path)
        folder, _, name = raw.rpartition(b"/")
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        with Folder(os.open(item.slot, flags, dir_fd=self._ground.room.fd)) as other:
            there = other.folder_fd(folder)
            os.rename(name, name, src_dir_fd=there, dst_dir_fd=entered(self._slot, folder, 0o700))
        item.slot = self._name
