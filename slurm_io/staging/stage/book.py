"""What a running stage has done so far, for all its threads: files proven, bytes, failures."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from slurm_io.staging.stage.model import Failure
from slurm_io.staging.verify.journal import Journal
from slurm_io.staging.verify.table import Stamp

FAILURES_KEPT = 1000


class Book:
    """Counts of one stage. `tell` is called with them after every change, from any thread."""

    def __init__(self, journal: Journal, tell: Callable[[], None] = lambda: None) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self.tell = tell
        self.moved_bytes = 0
        self.copied_files = 0
        self.copied_bytes = 0
        self.repaired_files = 0
        self.bytes_from_cache = 0
        self.by_source: Counter[str] = Counter()
        self.failures: list[Failure] = []
        self.failed_count = 0
        self.notes: list[str] = []

    def moved(self, count: int) -> None:
        """Bytes have arrived."""
        with self._lock:
            self.moved_bytes += count
        self.tell()

    def prove(self, index: int, stamp: Stamp) -> None:
        """A file under its own name was hashed and had this stamp."""
        with self._lock:
            self._journal.add(index, stamp)

    def copied(self, index: int, stamp: Stamp, proven: bool, replaced: bool, source: str) -> None:
        """A file got its name. `proven`: its content was, not only its size."""
        with self._lock:
            if proven:
                self._journal.add(index, stamp)
            self.copied_files += 1
            self.copied_bytes += stamp[1]
            self.repaired_files += replaced
            self.by_source[source] += stamp[1]
        self.tell()

    def fail(self, failure: Failure) -> None:
        """No source could bring a file."""
        with self._lock:
            self.failed_count += 1
            if len(self.failures) < FAILURES_KEPT:
                self.failures.append(failure)

    def note(self, text: str) -> None:
        """Something people should know, once."""
        with self._lock:
            if text not in self.notes:
                self.notes.append(text)

    def from_cache(self, count: int) -> None:
        """So many bytes were hashed from memory, not from the medium."""
        with self._lock:
            self.bytes_from_cache += count
