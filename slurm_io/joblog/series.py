"""The readings of one form in one log, set in relation to one another.

Several lines about one step become one record (every rank prints it, or two lines tell parts of
it). A step counter that goes back begins another run: a requeue, a second training. What a line
does not say follows from the one before: the logging interval, and for forms whose lines bear time
stamps the step time. A record waits until the next step is seen or nothing more has come.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from slurm_io.joblog.figures import positive
from slurm_io.joblog.model import LogRecord, Reading
from slurm_io.joblog.stamps import Stamp

_RECENT = 8
_SAME_STEP_S = 5.0  # ranks print one step within moments
_MOST_LABELS = 64
_GROW = ("step", "ckpt_save")  # further lines may add to these
_STAMP_ERROR = 0.1  # largest share of a step time that the stamps' resolution may be


@dataclass(slots=True)
class _Held:
    """A record that may still grow. `is_old`: it has been held since an earlier take."""

    reading: Reading
    run: int
    stamp: Stamp | None
    at_byte: int
    detail: dict[str, Any]
    labels: set[str] = field(default_factory=set)
    parts: Counter[str] = field(default_factory=Counter)
    is_old: bool = False


class Series:
    """One form's steps, losses, evaluations and saves.

    Args:
        source: the form's name.
        has_stamps: whether stamps may give the step time.
        all_ranks: whether every rank prints each step, and may be late with it.
        from_start: whether the log is seen from its beginning: then the first step is warm-up.
    """

    def __init__(self, source: str, has_stamps: bool, all_ranks: bool, from_start: bool) -> None:
        self._source = source
        self._has_stamps = has_stamps
        self._all_ranks = all_ranks
        self._from_start = from_start
        self._run = 1
        self._held: dict[str, _Held] = {}
        self._is_begun = False
        self._last: _Held | None = None
        self._recent: deque[_Held] = deque(maxlen=_RECENT)
        self.late_duplicates = 0

    def add(
        self, reading: Reading, label: str, stamp: Stamp | None, at_byte: int
    ) -> Iterable[LogRecord]:
        """Take a reading; records that are complete now."""
        if reading.amends:
            self._amend(reading)
            return ()
        if reading.new_run:
            self._begin_run()
        if reading.kind == "step" and reading.step is not None:
            return self._step(reading, label, stamp, at_byte)
        closed = self._close(reading.kind)
        self._held[reading.kind] = self._hold(reading, label, stamp, at_byte)
        return closed if reading.kind in _GROW else [*closed, *self._close(reading.kind)]

    def add_cut(self, reading: Reading, label: str) -> None:
        """A line whose end is missing: its figures cannot be trusted, only that it was printed."""
        held = self._held.get(reading.kind)
        if held is not None and held.reading.step == reading.step and reading.step is not None:
            _merge(held, Reading(reading.kind, reading.step, part=reading.part), label, None)

    def take(self, last: bool) -> list[LogRecord]:
        """Records that have waited since the call before; with `last` all."""
        ready = [kind for kind, held in self._held.items() if held.is_old or last]
        records = [record for kind in ready for record in self._close(kind)]
        for held in self._held.values():
            held.is_old = True
        return records

    def _step(
        self, reading: Reading, label: str, stamp: Stamp | None, at_byte: int
    ) -> Iterable[LogRecord]:
        held = self._held.get("step")
        if held is not None and held.reading.step == reading.step and _is_near(held.stamp, stamp):
            _merge(held, reading, label, stamp)
            return ()
        if self._is_late(reading, label, stamp):
            self.late_duplicates += 1
            return ()
        closed = self._close("step")
        last = self._last
        if last is not None and _step_of(last) >= (reading.step or 0):
            self._begin_run()
        self._held["step"] = self._hold(reading, label, stamp, at_byte)
        return closed

    def _is_late(self, reading: Reading, label: str, stamp: Stamp | None) -> bool:
        """A slow rank prints a step that others have left behind: no step counter goes back.

        Without stamps another printer must have said the same: a training that goes on from its
        last checkpoint repeats steps and losses too.
        """
        for held in self._recent:
            if held.reading.step != reading.step:
                continue
            if stamp is not None and held.stamp is not None:
                return _is_near(held.stamp, stamp)
            is_other = self._all_ranks or label not in held.labels
            loss = held.detail.get("loss")
            return is_other and loss is not None and loss == reading.detail.get("loss")
        return False

    def _begin_run(self) -> None:
        self._run += self._is_begun
        self._is_begun = False
        self._last = None
        self._recent.clear()
        self._from_start = True

    def _hold(self, reading: Reading, label: str, stamp: Stamp | None, at_byte: int) -> _Held:
        self._is_begun = True
        held = _Held(reading, self._run, stamp, at_byte, dict(reading.detail))
        held.parts[reading.part] += 1
        held.labels.add(label)
        return held

    def _amend(self, reading: Reading) -> None:
        """A line that adds to the one before; when that is gone already, nobody knows to which."""
        held = self._held.get(reading.kind)
        if held is not None:
            held.detail.update(reading.detail)

    def _close(self, kind: str) -> list[LogRecord]:
        held = self._held.pop(kind, None)
        if held is None:
            return []
        reading, detail = held.reading, held.detail
        step_time_s = reading.step_time_s
        if kind == "step" and reading.step is not None:
            step_time_s = self._relate(held)
        ranks = max(*held.parts.values(), len(held.labels))
        if ranks > 1:
            detail["ranks_seen"] = ranks
        return [
            LogRecord(
                self._source, reading.kind, held.run, reading.step, positive(step_time_s),
                positive(reading.samples_per_s), positive(reading.tokens_per_s), held.stamp,
                held.at_byte, detail,
            )
        ]  # fmt: skip

    def _relate(self, held: _Held) -> float | None:
        """Interval, warm-up and step time with regard to the step before; the step time."""
        before = self._last
        step, detail = _step_of(held), held.detail
        step_time_s = held.reading.step_time_s
        if before is None:
            if self._from_start or step <= 1:
                detail["warmup"] = True
        else:
            detail["interval_steps"] = step - _step_of(before)
            if step_time_s is None and self._has_stamps:
                step_time_s = _by_stamps(before.stamp, held.stamp, detail["interval_steps"])
        if step_time_s is None and detail.get("basis") == "stamps":
            del detail["basis"]
        self._last = held
        self._recent.append(held)
        return step_time_s


def _step_of(held: _Held) -> int:
    return held.reading.step or 0


def _is_near(one: Stamp | None, other: Stamp | None) -> bool:
    if one is None or other is None:
        return True
    return abs(one.seconds - other.seconds) <= _SAME_STEP_S


def _by_stamps(before: Stamp | None, now: Stamp | None, steps: int) -> float | None:
    """Seconds a step between two stamps of one printer; None when they are too coarse to tell."""
    if before is None or now is None or steps <= 0 or before.zone != now.zone:
        return None
    passed_s = now.seconds - before.seconds
    if passed_s <= 0 or max(before.resolution_s, now.resolution_s) > _STAMP_ERROR * passed_s:
        return None
    return round(passed_s / steps, 9)


def _merge(held: _Held, reading: Reading, label: str, stamp: Stamp | None) -> None:
    """What the first printer said stands; others fill its gaps."""
    held.parts[reading.part] += 1
    if len(held.labels) < _MOST_LABELS:
        held.labels.add(label)
    held.detail = {**reading.detail, **held.detail}
    if held.stamp is None:
        held.stamp = stamp
    old = held.reading
    held.reading = Reading(
        old.kind,
        old.step,
        reading.step_time_s if old.step_time_s is None else old.step_time_s,
        reading.samples_per_s if old.samples_per_s is None else old.samples_per_s,
        reading.tokens_per_s if old.tokens_per_s is None else old.tokens_per_s,
    )
