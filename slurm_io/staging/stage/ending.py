"""The end of a stage: all on disk, a last verify, the record, and what to tell."""

from __future__ import annotations

import contextlib
import time

from slurm_io.errors import HostError
from slurm_io.staging.beneath import Folder
from slurm_io.staging.record import State
from slurm_io.staging.stage import answers
from slurm_io.staging.stage.book import Book
from slurm_io.staging.stage.draft import Draft
from slurm_io.staging.stage.keeping import Keeper
from slurm_io.staging.stage.model import StageAnswer
from slurm_io.staging.stage.order import OnProgress, Progress
from slurm_io.staging.stage.own_files import inside
from slurm_io.staging.stage.room import Room
from slurm_io.staging.stage.syncing import sync_file_system
from slurm_io.staging.verify.driver import Target, verify
from slurm_io.staging.verify.journal import Journal
from slurm_io.staging.verify.model import HARMLESS, VerifyAnswer
from slurm_io.staging.verify.work import Options


class Ending:
    """Of one stage whose copy has ended, well or not. `verify_s`: what the last verify took."""

    def __init__(
        self,
        found: Draft,
        tree: Folder,
        book: Book,
        keeper: Keeper,
        journal: Journal,
        on_progress: OnProgress,
    ) -> None:
        self._found = found
        self._tree = tree
        self._book = book
        self._keeper = keeper
        self._journal = journal
        self._on_progress = on_progress
        self.verify_s = 0.0

    def answer(self, stopped: bool, ended_by: str | None) -> StageAnswer:
        """What it came to; the record says the same. Raises HostError, OSError."""
        if stopped:
            return answers.stopped(self._found, self._book)
        if ended_by is not None or self._book.failed_count:
            self._keeper.say("failed")
            return answers.not_copied(self._found, self._book, ended_by)
        sync_file_system(self._tree.fd)
        self._keeper.say("copied")
        self._remove_room()
        self._keeper.say("verifying")
        started_s = time.monotonic()
        verified = self._verify()
        self.verify_s = time.monotonic() - started_s
        return self._judge(verified)

    def _verify(self) -> VerifyAnswer:
        """Every file's stamp; what the journal does not know is hashed."""
        target = Target(
            path=self._found.order.path,
            manifest=self._found.manifest,
            keep_proof=True,
            journal=self._journal,
            roots=self._found.order.roots,
        )
        ignore = frozenset(inside(self._found.order.path, self._found.order.manifest))
        return verify(target, 4, None, Options(ignore=ignore, progress=self._tell))

    def _tell(self, level: int, done: int, of_all: int) -> None:
        if level == 4:
            self._on_progress(Progress("verifying", done, of_all, 0, self._found.expected.count))

    def _judge(self, verified: VerifyAnswer) -> StageAnswer:
        state: State | None = None
        only_sizes = _only_digests_missing(verified, self._without_digest())
        if only_sizes:
            state = "ready" if self._found.order.accept_sizes else "copied"
        try:
            record = self._keeper.keep(verified, state)
        except HostError as error:
            return answers.not_recorded(self._found, self._book, str(error))
        with contextlib.suppress(OSError):
            self._journal.remove()
        return answers.verified(self._found, self._book, verified, record, only_sizes)

    def _without_digest(self) -> int:
        return sum(entry.digest is None for entry in self._found.expected.files)

    def _remove_room(self) -> None:
        room = Room.found(self._tree.fd)
        if room is not None:
            room.remove()
            room.close()


def _only_digests_missing(verified: VerifyAnswer, without_digest: int) -> bool:
    """Whether level 4 was not finished merely because the manifest has no digest of some files."""
    assert verified.proof is not None
    harmless = all(why in HARMLESS for why in verified.counts)
    proven = verified.proof.lowest_level() >= 1
    hashed = verified.files_hashed + without_digest >= verified.files
    return bool(without_digest) and harmless and proven and hashed
