"""The application's side of one mount: llite's counters."""

from __future__ import annotations

from slurm_io.filesystems.client_counters import ClientCounters, OpClass
from slurm_io.filesystems.lustre.names import Instance
from slurm_io.filesystems.lustre.places import Places
from slurm_io.filesystems.lustre.stats import parse_stats
from slurm_io.filesystems.lustre.views import PAGE_FAULTS, application_view

_TRACKS = ("stats_track_pid", "stats_track_ppid", "stats_track_gid")


class LliteReading:
    """What applications asked one mount for.

    Attributes:
        reason: why there are no counters; "" when there are.
        unread_lines: damaged lines of the last reading.
    """

    def __init__(self, instance: Instance, places: Places) -> None:
        self._folder = f"llite/{instance.name}"
        self._places = places
        self._file = places.find(f"{self._folder}/stats")
        self._last: dict[OpClass, ClientCounters] | None = None
        self._hash: int | None = None
        self._first: dict[str, int] | None = None
        self._now: dict[str, int] = {}
        self.unread_lines = 0
        self.reason = ""
        self.look_around()

    def look_around(self) -> None:
        """See whether the counters are to be had, and of everybody (``stats_track_pid`` and its
        like narrow them to one process or group)."""
        name = f"{self._folder}/stats"
        if self._file is None:
            self.reason = f"{name} {self._places.why_missing(name)}"
            return
        tracked = [f"{track} is {value}" for track in _TRACKS if (value := self._track(track))]
        self.reason = f"{name} counts one process or group only: {tracked[0]}" if tracked else ""

    def read(self) -> dict[OpClass, ClientCounters] | None:
        """Totals by class; None when they are not to be had."""
        content = None if self._file is None or self.reason else self._file.read()
        if content is None:
            return None
        content_hash = hash(content)
        if content_hash != self._hash:
            self._hash = content_hash
            stats = parse_stats(content)
            self._last = application_view(stats)
            self.unread_lines = stats.unread_lines
            self._now = {name: stats.samples(name) for name in PAGE_FAULTS}
            self._now["read_bytes"] = self._last["read"].bytes or 0
            self._first = self._first or self._now
        return self._last

    def counts_times(self) -> bool | None:
        """False for versions before 2.14, whose rows have no ``exe_ms``; None when nothing was
        asked yet."""
        done = [one for one in (self._last or {}).values() if one.ops]
        return any(one.exe_ns is not None for one in done) if done else None

    def since_start(self, name: str) -> int | None:
        """Growth of ``read_bytes``, ``page_fault`` or ``page_mkwrite`` since the first reading;
        None when it was cleared meanwhile, or never read."""
        grown = None if self._first is None else self._now[name] - self._first[name]
        return None if grown is None or grown < 0 else grown

    def close(self) -> None:
        """Give the descriptor back."""
        if self._file is not None:
            self._file.close()

    def _track(self, track: str) -> str | None:
        """The number of what alone is counted. Everybody is ``0 (all)`` or ``untracked``."""
        file = self._places.find(f"{self._folder}/{track}")
        content = None if file is None else file.read()
        if file is not None:
            file.close()
        value = (content or b"").strip()
        return value.decode() if value.isdigit() and value != b"0" else None
