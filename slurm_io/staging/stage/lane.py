"""One thread of one source: takes files, lets the engine bring them, proves and names them."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Sequence

from slurm_io.staging.beneath import Folder
from slurm_io.staging.stage.engines.base import Engine, FetchOptions
from slurm_io.staging.stage.fetching import Brought, bring
from slurm_io.staging.stage.ground import Ground
from slurm_io.staging.stage.model import Failure, SourceSpec
from slurm_io.staging.stage.naming import TARGET_ERRORS, Checked, check, give_name
from slurm_io.staging.stage.parts import Parts
from slurm_io.staging.stage.pieces import has_chunks
from slurm_io.staging.stage.sharing import Item
from slurm_io.staging.verify.model import BadFile

BAD_TRIES = 2
"""So often one source may bring wrong bytes of a file, parts of earlier runs not counted."""


class Lane:
    """A thread. `fetching`: the engine has the word, `heard_s` when it last brought something.

    `abandoned`: it hangs in there and its files were given to others; whatever it still does has
    no effect but on files of its own that nobody will name.
    """

    def __init__(
        self,
        number: int,
        spec: SourceSpec,
        engine: Engine,
        ground: Ground,
        on_batch: Callable[[int, str], None],
    ) -> None:
        """`on_batch` is told how many files a call brought and what the link said if none."""
        self._number = number
        self._spec = spec
        self._engine = engine
        self._ground = ground
        self._on_batch = on_batch
        self._lock = threading.Lock()
        self._items: list[Item] = []
        self.stop = threading.Event()
        self.fetching = False
        self.abandoned = False
        self.heard_s = time.monotonic()
        self._slot = ground.room.slot(number)
        self._tree = Folder(os.dup(ground.root_fd))
        self._parts = Parts(number, self._slot, self._tree, ground)
        self.thread = threading.Thread(target=self._run, daemon=True, name=f"stage-{number}")
        self.thread.start()

    def abandon(self) -> bool:
        """Leave it where it hangs, give its files to others; False when it came back meanwhile."""
        with self._lock:
            if not self.fetching:
                return False
            self.abandoned = True
        for item in self._items:
            item.slot, item.ranges = None, None
            item.refuse(self._number)
            item.last = Failure(item.entry.path, f"{self._spec.label} gave no answer", "source")
        self._ground.share.give_back(self._items)
        return True

    def _run(self) -> None:
        try:
            while not self._ground.over():
                self._items = self._ground.share.take(self._number, self._engine.batch_files)
                if not self._items:
                    return
                self._batch(self._items)
                if self.abandoned:
                    return
        except Exception as error:  # noqa: BLE001 - a thread that dies silently would hang the stage
            self._ground.end(
                f"internal fault in a copying thread ({type(error).__name__}: {error})"
            )
        finally:
            # Only now: the engine wrote by this descriptor's number, which must not name another
            # folder while it runs.
            self._slot.close()
            self._tree.close()

    def _batch(self, items: list[Item]) -> None:
        try:
            resumed = {item.index for item in items if self._parts.prepare(item, self._engine)}
        except OSError as error:
            self._own_fault(items, error)
            return
        with self._lock:
            self.heard_s, self.fetching = time.monotonic(), True
        options = FetchOptions(self._ground.bandwidth_share(), self._moved, self.stop)
        brought = bring(self._engine, items, self._slot, options)
        with self._lock:
            self.fetching = False
            if self.abandoned:
                return
        self._settle(items, brought, resumed)

    def _moved(self, count: int) -> None:
        self.heard_s = time.monotonic()
        if not self.abandoned:
            self._ground.book.moved(count)

    def _settle(self, items: list[Item], brought: Brought, resumed: set[int]) -> None:
        arrived = [item.entry for item in items if item.entry.path not in brought.failures]
        try:
            checked = check(self._slot, self._ground.header, arrived, self._ground.stop)
        except OSError as error:
            self._own_fault(items, error)
            return
        self._ground.book.from_cache(checked.bytes_from_cache)
        named, link = 0, ""
        for item in items:
            failure = brought.failures.get(item.entry.path)
            if failure is not None:
                link = failure.text if failure.whose == "link" else link
                self._failed(item, failure)
            elif item.entry.path in checked.right or item.entry.path in checked.sized:
                named += self._name(item, checked)
            elif (bad := checked.bad.get(item.entry.path)) is not None:
                self._bad(item, bad, item.index in resumed)
            else:  # told to stop before it was hashed
                self._ground.share.give_back([item])
        self._on_batch(named, link)

    def _name(self, item: Item, checked: Checked) -> bool:
        path = item.entry.path
        try:
            stamp = give_name(self._slot, self._tree, path, checked.stamps[path])
        except OSError as error:
            if error.errno in TARGET_ERRORS:
                self._ground.end(f"the target: {error.strerror}")
            self._ground.book.fail(Failure(path, error.strerror or str(error), "target"))
            self._ground.share.finish()
            return False
        proven = path in checked.right
        self._ground.book.copied(item.index, stamp, proven, item.replaces, self._spec.label)
        self._ground.share.finish()
        return True

    def _bad(self, item: Item, bad: BadFile, resumed: bool) -> None:
        """Wrong bytes came, or this node cannot read what it wrote."""
        if bad.why == "unreadable":
            self._own_fault([item], OSError(errno.EIO, bad.detail))
            return
        item.last = Failure(item.entry.path, f"{bad.why}: {bad.detail}", "source")
        chunked = has_chunks(self._ground.header, item.entry)
        # What an earlier run left and no digest vouched for may have been wrong before.
        counts = chunked or not resumed
        if counts and item.tried(self._number) >= BAD_TRIES:
            item.refuse(self._number)
        self._parts.keep(item, bad.ranges or (None if chunked else ()))
        self._ground.share.give_back([item])

    def _failed(self, item: Item, failure: Failure) -> None:
        item.last = failure
        if failure.whose == "target":
            self._ground.end(f"the target: {failure.text}")
            self._ground.book.fail(failure)
            self._ground.share.finish()
            return
        most = self._ground.patience.link_tries
        if failure.whose == "source" or item.tried(self._number) >= most:
            item.refuse(self._number)
        goes_on = failure.whose == "link" or has_chunks(self._ground.header, item.entry)
        self._parts.keep(item, None if goes_on else ())
        self._ground.share.give_back([item])

    def _own_fault(self, items: Sequence[Item], error: OSError) -> None:
        """This node cannot write, or not read what it wrote."""
        self._ground.end(f"the target: {error.strerror or error}")
        self._ground.book.fail(Failure(items[0].entry.path, error.strerror or str(error), "target"))
        self._ground.share.finish(len(items))
