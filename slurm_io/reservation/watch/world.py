"""What the watch needs of the world; :mod:`slurm_io.reservation.watch.site` is the real one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from slurm_io.reservation.history import HistoryRecord
from slurm_io.reservation.watch.model import Look


class World(Protocol):
    """Every call has a time limit. Raises SlurmIoError only."""

    def look(self, at_s: float, left: Sequence[str]) -> Look:
        """The reservation now; `left` are nodes outside that are looked at too."""

    def start(self, arguments: Sequence[str]) -> tuple[int, int]:
        """``slurm-io ARGUMENTS`` as a process that goes on without us: its pid and start time."""

    def is_running(self, pid: int, born: int) -> bool:
        """Whether that process has not ended."""

    def submit_filler(self, node: str) -> str:
        """A filler job for this spare: its id."""

    def cancel(self, job_id: str) -> None:
        """End a job."""

    def sync_features(self, look: Look, distrusted: Collection[str]) -> list[str]:
        """Bring the nodes' dataset features in step; one line for each change. What `distrusted`
        nodes say of their data is not believed."""

    def record(self, record: HistoryRecord) -> None:
        """Into the reservation's history."""

    def alert(self, text: str) -> None:
        """Call a person, in the way that the site has set."""
