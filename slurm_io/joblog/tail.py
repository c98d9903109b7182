"""A log as it grows: bytes in at any pace and in pieces of any size, records out when taken.

Memory is bounded: one unfinished line of 64 KiB at most, a handful of bars, one unfinished record
of each kind. Nothing here raises for anything a log may hold. How the bytes were cut into pieces
between two takes makes no difference to the records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from slurm_io.joblog import bars
from slurm_io.joblog.clean import decoded, without_labels
from slurm_io.joblog.figures import positive
from slurm_io.joblog.forms.base import FORMS, Form
from slurm_io.joblog.model import LONGEST_LINE_BYTES, Counts, Line, LogRecord, Reading
from slurm_io.joblog.series import Series
from slurm_io.joblog.stamps import find_stamp

_SEGMENT = re.compile(rb"[^\r\n]+")
_MOST_TORN_KEPT = 16
_MOST_WAITING = 4096


class LogTail:
    """One log. `at_byte`: offset of the first byte that will be fed; a tail that does not begin at
    the start of its file drops what is left of the line it lands in.
    """

    def __init__(self, at_byte: int = 0) -> None:
        self.counts = Counts()
        self._at_byte = at_byte
        self._from_start = at_byte == 0
        self._forms: list[Form] = [make() for make in FORMS]
        self._series: dict[str, Series] = {}
        self._bars = bars.Bars()
        self._rest = b""
        self._drops = at_byte > 0  # up to the next end of a line
        self._records: list[LogRecord] = []

    def feed(self, data: bytes) -> None:
        """The next bytes."""
        if not data:
            return
        self.counts.bytes_read += len(data)
        if self._drops:
            data = self._after_dropped_line(data)
        data = self._rest + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if end:
            self._read_segments(data, end)
            self._at_byte += end
        self._rest = data[end:]
        if len(self._rest) > LONGEST_LINE_BYTES:
            self._drop_rest()

    def skip(self, size_bytes: int) -> None:
        """Bytes that were not read; the lines at both ends of the hole are torn."""
        if size_bytes <= 0:
            return
        self.counts.bytes_skipped += size_bytes
        self._tear(self._at_byte)
        self._at_byte += len(self._rest) + size_bytes
        self._rest = b""
        self._drops = True

    def restart(self) -> None:
        """The file was emptied: the next byte is its first. Step counters go on."""
        if self._rest:
            self._tear(self._at_byte)
        self._at_byte, self._rest, self._drops = 0, b"", False

    def take(self, last: bool = False) -> list[LogRecord]:
        """Records since the call before, in the order of their lines. A step is held back until the
        next one, or one more call, shows that no rank prints it any more; with `last` nothing is.
        """
        for _ in range(2 if last else 1):
            for form in self._forms:
                for reading in self._guarded(form.settle):
                    self._add(form, reading, "", self._at_byte, "")
        self._take_bars()
        if last:
            self._read_cut_line()
        for series in self._series.values():
            self._records += series.take(last)
        self.counts.late_duplicates = sum(one.late_duplicates for one in self._series.values())
        records, self._records = self._records, []
        self.counts.records += len(records)
        return sorted(records, key=lambda record: record.at_byte)

    def _after_dropped_line(self, data: bytes) -> bytes:
        found = re.search(rb"[\r\n]", data)
        cut = found.end() if found is not None else len(data)
        self._drops = found is None
        self._at_byte += cut
        return data[cut:]

    def _drop_rest(self) -> None:
        self.counts.long_lines += 1
        self._at_byte += len(self._rest)
        self._rest = b""
        self._drops = True

    def _read_segments(self, data: bytes, end: int) -> None:
        """Whole lines of `data`; most hold no marker and are never decoded."""
        forms = [form for form in self._forms if form.is_open or _holds(data, form.markers)]
        has_bars = _holds(data, bars.MARKERS)
        if not forms and not has_bars and end <= LONGEST_LINE_BYTES:
            return
        for found in _SEGMENT.finditer(data, 0, end):
            segment = found.group()
            if len(segment) > LONGEST_LINE_BYTES:
                self.counts.long_lines += 1
                continue
            at_byte = self._at_byte + found.start()
            if has_bars and _holds(segment, bars.MARKERS):
                self._bars.offer(segment, at_byte)
            wanted = [form for form in forms if form.is_open or _holds(segment, form.markers)]
            if wanted:
                self._read_line(segment, at_byte, wanted)

    def _read_line(self, segment: bytes, at_byte: int, forms: list[Form]) -> None:
        text = decoded(segment)
        label, rest = without_labels(text)
        line = Line(rest, label, at_byte)
        for form in forms:
            for reading in self._guarded(form.read, line):
                self._add(form, reading, label, at_byte, rest)

    def _guarded(self, ask: Callable[..., Iterable[Reading]], *given: Line) -> list[Reading]:
        """A fault of one form costs that form its line."""
        try:
            return list(ask(*given))
        except Exception:  # noqa: BLE001 - the other forms and lines go on
            self.counts.faults += 1
            return []

    def _add(self, form: Form, reading: Reading, label: str, at_byte: int, text: str) -> None:
        if reading.kind == "torn":
            self._tear(at_byte)
            return
        series = self._series.get(form.name)
        if series is None:
            series = Series(form.name, form.has_stamps, form.all_ranks, self._from_start)
            self._series[form.name] = series
        begun = at_byte if reading.at_byte is None else reading.at_byte
        self._records += series.add(reading, label, find_stamp(text), begun)
        if len(self._records) > _MOST_WAITING:
            del self._records[0]

    def _take_bars(self) -> None:
        if self._rest and not self._drops and self._rest.rstrip().endswith(b"]"):
            self._bars.offer(self._rest, self._at_byte)
        for seen in self._bars.take():
            for form in self._forms:
                reading = form.bar(seen.bar)
                if reading is None:
                    continue
                record = LogRecord(
                    form.name, reading.kind, seen.run, reading.step,
                    positive(reading.step_time_s), None, None, None, seen.at_byte, reading.detail,
                )  # fmt: skip
                self._records.append(record)
                break

    def _read_cut_line(self) -> None:
        """The log ends within a line: it may have been cut anywhere, in a number too."""
        rest, self._rest = self._rest, b""
        label, text = without_labels(decoded(rest))
        line = Line(text, label, self._at_byte)
        self._at_byte += len(rest)
        forms = [form for form in self._forms if _holds(rest, form.markers)]
        readings = [(form, reading) for form in forms for reading in self._guarded(form.read, line)]
        if readings:
            self._tear(line.at_byte)
        for form, reading in readings:
            if form.name in self._series:
                self._series[form.name].add_cut(reading, label)

    def _tear(self, at_byte: int) -> None:
        self.counts.torn_lines += 1
        self.counts.torn_at.append(at_byte)
        del self.counts.torn_at[:-_MOST_TORN_KEPT]


def _holds(data: bytes, markers: tuple[bytes, ...]) -> bool:
    for marker in markers:  # noqa: SIM110 - any() makes a generator, at every line of a log
        if marker in data:
            return True
    return False
