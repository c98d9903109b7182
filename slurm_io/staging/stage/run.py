"""One stage on this node: survey, copy, prove, make durable, record.

At any moment a kill leaves either a record that says no, or a copy that is proven: the record stops
being ready before the first file is touched, files get their names only when their content is
right, and the record says ready only when all is on disk and a last verify has agreed.
"""

from __future__ import annotations

import os
import threading
import time

from slurm_io.errors import HostError
from slurm_io.staging import record as records
from slurm_io.staging.beneath import Folder
from slurm_io.staging.manifest.summary import human_bytes
from slurm_io.staging.stage import answers
from slurm_io.staging.stage.book import Book
from slurm_io.staging.stage.clearing import clear
from slurm_io.staging.stage.draft import Draft, draft, wanted_manifest
from slurm_io.staging.stage.ending import Ending
from slurm_io.staging.stage.first_look import look
from slurm_io.staging.stage.keeping import Keeper
from slurm_io.staging.stage.model import StageAnswer
from slurm_io.staging.stage.moving import Moving
from slurm_io.staging.stage.order import OnProgress, Progress, StageOrder
from slurm_io.staging.stage.planning import plan_of
from slurm_io.staging.stage.room import Room
from slurm_io.staging.stage.target_folder import open_target
from slurm_io.staging.stage.this_boot import journal_key
from slurm_io.staging.verify.absent_mount import absent_mount
from slurm_io.staging.verify.driver import here
from slurm_io.staging.verify.journal import Journal


def stage(
    order: StageOrder,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
) -> StageAnswer:
    """Bring one dataset to this node. `stop` set: end soon; the same order goes on later.

    Raises SlurmIoError when manifest, folder or state cannot be used, or another stage or verify
    of this dataset runs on the node. What goes wrong with files is in the answer.
    """
    manifest = wanted_manifest(order)
    _make_folder(order.path).close()
    with records.locked(order.state_dir, order.name, order.tier) as folder:
        found = draft(order, manifest)
        with _opened(order.path) as tree:
            return _Stage(found, folder, tree, on_progress, stop or threading.Event()).run()


def _make_folder(path: str) -> Folder:
    missing = absent_mount(path)
    if missing is not None:
        raise HostError(f"nothing is mounted at {missing}: the copy would fill another file system")
    try:
        return open_target(path, make=True)
    except OSError as error:
        raise HostError(f"the folder {path!a} cannot be made: {error.strerror}") from error


def _opened(path: str) -> Folder:
    try:
        return open_target(path)
    except OSError as error:
        raise HostError(f"the folder {path!a} cannot be opened: {error.strerror}") from error


class _Stage:
    """One stage with its lock held and its folder open."""

    def __init__(
        self,
        found: Draft,
        folder: int,
        tree: Folder,
        on_progress: OnProgress | None,
        stop: threading.Event,
    ) -> None:
        self._found = found
        self._folder = folder
        self._tree = tree
        self._on_progress = on_progress or (lambda _: None)
        self._stop = stop
        self._started_s = time.monotonic()

    def run(self) -> StageAnswer:
        found = self._found
        if found.is_ready:
            self._remove_room()
            return answers.nothing_to_do(found)
        plan = plan_of(found)
        if plan.exit_code == 3:
            return answers.impossible(found, plan)
        keeper = Keeper(self._folder, found, here(found.order.roots, self._tree)[0])
        inode = os.fstat(self._tree.fd).st_ino
        key = journal_key(found.content_id, found.order.roots)
        try:
            with Journal(self._folder, key, inode) as journal:
                return self._run(keeper, journal)
        except OSError as error:
            raise HostError(f"staging ended: {error.strerror or error}") from error

    def _run(self, keeper: Keeper, journal: Journal) -> StageAnswer:
        found = self._found
        book = Book(journal)
        for index in found.by_record:  # the record that vouches for them goes now
            book.prove(index, found.survey.proven[index])
        keeper.say("copying")
        self._clear(book)
        looked_s = time.monotonic()
        bad = look(found, self._tree, book, self._stop, self._looking)
        moving = Moving(found, self._tree, book, self._stop, self._on_progress)
        started_s = time.monotonic()
        ended_by = moving.run(bad)
        copy_s = time.monotonic() - started_s
        if book.copied_files:
            keeper.copied(moving.engines, ", ".join(book.by_source), book.moved_bytes, copy_s)
        ending = Ending(found, self._tree, book, keeper, journal, self._on_progress)
        answer = ending.answer(self._stop.is_set(), ended_by)
        total_s = time.monotonic() - self._started_s
        hashing_s = started_s - looked_s + ending.verify_s
        return answers.timed(answer, total_s, copy_s, hashing_s)

    def _clear(self, book: Book) -> None:
        """Old debris, and what this version lacks where that was asked for."""
        survey = self._found.survey
        unwanted = [*survey.blockers, *survey.extra] if self._found.order.delete_extra else []
        cleared = clear(self._tree, [*survey.debris, *unwanted])
        for problem in cleared.problems:
            book.note(problem)
        if cleared.removed:
            book.note(f"removed {len(cleared.removed)} entries, {human_bytes(cleared.freed_bytes)}")

    def _looking(self, level: int, done: int, of_all: int) -> None:
        self._on_progress(Progress("planning", done, of_all, 0, len(self._found.survey.unproven)))

    def _remove_room(self) -> None:
        """A kill between the record and this left it."""
        room = Room.found(self._tree.fd)
        if room is not None:
            room.remove()
            room.close()
