"""One Lustre mount, seen from the application's and from the wire's side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slurm_io.filesystems.lustre.llite import LliteReading
from slurm_io.filesystems.lustre.names import Instance, Target
from slurm_io.filesystems.lustre.nested import number_at, parse_nested
from slurm_io.filesystems.lustre.places import Places
from slurm_io.filesystems.lustre.states import States
from slurm_io.filesystems.lustre.stats import Counter, parse_stats
from slurm_io.filesystems.lustre.wire import WireReading

_MOST_SHOWN = 256  # containers may bind one mount thousands of times


class MountView:
    """One mount: counters from both sides, states, and where it is mounted.

    Attributes:
        mount_point: None while that is not known.
        also: its other mount points.
    """

    def __init__(self, instance: Instance, targets: Sequence[Target], places: Places) -> None:
        self.instance = instance
        self.targets = list(targets)
        self.mount_point: str | None = None
        self.also: list[str] = []
        self.llite = LliteReading(instance, places)
        self.wire = WireReading(targets, places)
        self.states = States(targets, places)
        self._places = places
        self._first_active: tuple[int, int] | None = None
        self._totals: dict[str, Any] = {}

    @property
    def shown_as(self) -> str:
        """The mount point, or the instance's name when that cannot be told."""
        return self.mount_point or self.instance.name

    def reasons(self) -> list[str]:
        """What cannot be seen, and why."""
        found = [reason for reason in (self.llite.reason, self.wire.reason) if reason]
        if self.targets:
            folder = f"{self.targets[0].kind}/{self.targets[0].name}"
            missing = [] if self.states.is_readable else [f"{folder}/import"]
            missing += [] if self.states.tells_rpcs else [f"{folder}/rpc_stats"]
            found += [f"{name} {self._places.why_missing(name)}" for name in missing]
        return found

    @property
    def is_blind(self) -> bool:
        """True when there is nothing to read at all."""
        return bool(self.llite.reason) and self.wire.source is None and not self.states.is_readable

    def take_totals(self) -> None:
        """Read what changes slowly: page cache, readahead, limits. For :meth:`facts`."""
        self.llite.look_around()
        folder = f"llite/{self.instance.name}"
        cache = parse_nested(self._text(f"{folder}/max_cached_mb"))
        ahead = parse_stats(self._text(f"{folder}/read_ahead_stats").encode())
        osc = next((target for target in self.targets if target.kind == "osc"), None)
        limit = "" if osc is None else self._text(f"osc/{osc.name}/max_rpcs_in_flight").strip()
        before = self._totals.get("read_ahead_first") or _read_ahead(ahead.counters)
        self._first_active = self._first_active or self.wire.active
        self._totals = {
            "read_ahead_first": before,
            "read_ahead": _read_ahead(ahead.counters),
            "max_cached_mb": number_at(cache, "max_cached_mb"),
            "used_mb": number_at(cache, "used_mb"),
            "max_rpcs_in_flight": int(limit) if limit.isdecimal() and len(limit) < 10 else None,
        }

    def facts(self) -> dict[str, Any]:
        """For meta.json."""
        app_bytes = self.llite.since_start("read_bytes")
        wire_read = self.wire.totals.get("read")
        wire_bytes = None if wire_read is None else wire_read.bytes
        known = bool(app_bytes) and wire_bytes is not None
        totals = self._totals
        return {
            "mount": self.mount_point,
            "also_mounted_at": self.also[:_MOST_SHOWN],
            "instance": self.instance.name,
            "osts": sum(target.kind == "osc" for target in self.targets),
            "mdts": sum(target.kind == "mdc" for target in self.targets),
            "wire_source": self.wire.source,
            "not_seen": self.reasons(),
            "llite_counts_times": self.llite.counts_times(),
            "target_restarts": self.wire.restarts,
            "unread_lines": self.llite.unread_lines + self.wire.unread_lines,
            "wire_bytes_per_byte_read": (wire_bytes or 0) / app_bytes
            if known and app_bytes
            else None,
            "page_faults": self.llite.since_start("page_fault"),
            "page_mkwrites": self.llite.since_start("page_mkwrite"),
            "read_ahead": _grown(totals.get("read_ahead_first"), totals.get("read_ahead")),
            "max_cached_mb": totals.get("max_cached_mb"),
            "used_mb": totals.get("used_mb"),
            "max_rpcs_in_flight": totals.get("max_rpcs_in_flight"),
            "mean_rpcs_in_flight": _mean(self._first_active, self.wire.active),
        }

    def close(self) -> None:
        """Give the descriptors back."""
        for part in (self.llite, self.wire, self.states):
            part.close()

    def _text(self, relative: str) -> str:
        file = self._places.find(relative)
        if file is None:
            return ""
        content = file.read() or b""
        file.close()
        return content.decode("utf-8", "replace")


def _read_ahead(counters: dict[str, Counter]) -> dict[str, int]:
    """Pages found and not found; readahead names the others in every version anew."""
    return {name: counters[name].samples if name in counters else 0 for name in ("hits", "misses")}


def _grown(before: dict[str, int] | None, now: dict[str, int] | None) -> dict[str, int] | None:
    if before is None or now is None or any(now[name] < before[name] for name in now):
        return None
    return {name: now[name] - before[name] for name in now}


def _mean(before: tuple[int, int] | None, now: tuple[int, int]) -> float | None:
    total, samples = (0, 0) if before is None else (now[0] - before[0], now[1] - before[1])
    return total / samples if samples > 0 and total >= 0 else None
