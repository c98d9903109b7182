"""What all threads of one copy share."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from slurm_io.staging.manifest.model import Header
from slurm_io.staging.stage.book import Book
from slurm_io.staging.stage.order import Patience
from slurm_io.staging.stage.room import Room
from slurm_io.staging.stage.sharing import Share


@dataclass
class Ground:
    """One copy under way. `stop`: end soon. `ended_by`: why nothing can be copied any more.
    `halted` is set in both cases."""

    header: Header
    root_fd: int
    room: Room
    share: Share
    book: Book
    stop: threading.Event
    patience: Patience
    bandwidth_bytes_s: int = 0
    ended_by: str | None = None
    running: int = 1
    halted: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def end(self, why: str) -> None:
        """The target cannot take any more: all threads end."""
        with self._lock:
            self.ended_by = self.ended_by or why
        self.halt()

    def halt(self) -> None:
        """Nobody gets files any more, nobody waits."""
        self.share.close()
        self.halted.set()

    def over(self) -> bool:
        """Whether threads should end."""
        return self.stop.is_set() or self.ended_by is not None

    def bandwidth_share(self) -> int:
        """Of one call, in B/s; 0 = no limit."""
        return max(1, self.bandwidth_bytes_s // max(1, self.running)) * bool(self.bandwidth_bytes_s)
