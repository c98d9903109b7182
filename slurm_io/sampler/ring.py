"""One hook ring, read from outside: the descriptor is kept, only new records are pread.

The file is the user's and may change under our hands in any way. It is never mapped (a truncated
mapping kills the reader by SIGBUS) and the head it announces is a hint, never trusted: a record
counts when both copies of its number are the one expected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from slurm_io.sampler.ring_batches import Batches, take_batches, whole_in_order
from slurm_io.sampler.ring_format import (
    CLOSED,
    GPU_COUNTS_OFFSET,
    GREETING_OFFSET,
    HEAD_OFFSET,
    HEADER_BYTES,
    OWN_WAITS_BYTES,
    OWN_WAITS_OFFSET,
    PHASE_OFFSET,
    RECORD_BYTES,
    STATE_OFFSET,
    GpuCounts,
    Greeting,
    Header,
    OwnWaits,
    Record,
    parse_gpu_counts,
    parse_greeting,
    parse_own_waits,
    parse_phase,
    parse_record,
    record_number,
)

_FIRST_RECORDS = 32  # read without asking the head: what a training adds in a second
_CHUNK_RECORDS = 512
_DRAINS_UNTIL_LOST = 3  # an exception between taking a number and writing leaves a hole for good
_FILLING = 8
_DRAIN_RECORDS = 16384  # at most a drain, so that a mad writer cannot keep the sampler busy


@dataclass
class RingCounts:
    """What one ring gave so far: whole records, records overwritten unread, garbage records."""

    records: int = 0
    overrun: int = 0
    garbage: int = 0

    @property
    def read(self) -> int:
        """Records looked at."""
        return self.records + self.garbage


class Ring:
    """Reader of one ring file; owns `fd`."""

    def __init__(self, fd: int, header: Header, raw_header: bytes) -> None:
        self._fd = fd
        self._n = header.n_records
        self._next = 0
        self._expected = _FIRST_RECORDS
        self._drains_at_a_hole = 0
        self._may_be_at_a_hole = True
        self.counts = RingCounts()
        self.header = header
        end = GREETING_OFFSET + header.greeting_bytes
        self.greeting: Greeting = parse_greeting(raw_header[GREETING_OFFSET:end])

    def phase(self) -> tuple[str, int | None]:
        """What the process is in at this moment; ("none", None) when it cannot be read."""
        try:
            return parse_phase(os.pread(self._fd, 16, PHASE_OFFSET))
        except OSError:
            return "none", None

    def gpu_counts(self) -> GpuCounts | None:
        """What the GPU-side measuring left out; None when it cannot be read."""
        try:
            return parse_gpu_counts(os.pread(self._fd, 24, GPU_COUNTS_OFFSET))
        except OSError:
            return None

    def is_filling(self) -> bool:
        """Whether an eighth of it holds news: time to read it, whoever's turn it is."""
        try:
            head = os.pread(self._fd, 8, HEAD_OFFSET)
        except OSError:
            return False
        return int.from_bytes(head, "little") - self._next >= self._n // _FILLING

    def own_waits(self) -> list[OwnWaits]:
        """CPU time in waits of loaders that read by themselves; empty when it cannot be read."""
        try:
            return parse_own_waits(os.pread(self._fd, OWN_WAITS_BYTES, OWN_WAITS_OFFSET))
        except OSError:
            return []

    def is_closed(self) -> bool:
        """The process says that it has ended."""
        try:
            return os.pread(self._fd, 4, STATE_OFFSET) == CLOSED
        except OSError:
            return False

    def drain(self, most: int = _DRAIN_RECORDS) -> Iterator[Record | Batches]:
        """New whole records, about `most`, batches that are alike together. In order, but for
        records of different kinds. Stops at the first not there yet."""
        if self._may_be_at_a_hole:
            self._pass_a_hole()
        else:
            self._drains_at_a_hole = 0
        began_at = self._next
        for turn in range(max(1, min(most, _DRAIN_RECORDS) // _CHUNK_RECORDS)):
            raw = self._read_chunk(self._expected if turn == 0 else self._announced())
            taken = whole_in_order(raw, self._next + 1)
            self._next += taken
            yield from self._parsed(raw, taken)
            skipped, offset = False, taken * RECORD_BYTES
            if offset + RECORD_BYTES <= len(raw):
                number = record_number(raw, offset)
                skipped = number is not None and self._skip_overwritten(number)
                self._may_be_at_a_hole = self._follows(raw, offset + RECORD_BYTES)
            if not skipped and offset < len(raw) or not raw:
                break
        self._expected = max(_FIRST_RECORDS, (self._next - began_at) * 5 // 4)

    def _parsed(self, raw: bytes, n_records: int) -> Iterator[Record | Batches]:
        """The first `n_records` of `raw`; those that make no sense are counted."""
        runs, others = take_batches(raw, n_records)
        for run in runs:
            self.counts.records += run.n
            yield run
        for place in others:
            record = parse_record(raw, place * RECORD_BYTES)
            if record is None:
                self.counts.garbage += 1
            else:
                self.counts.records += 1
                yield record

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)

    def _pass_a_hole(self) -> None:
        """A number that was taken and never written would hold up all that follow it."""
        if self._number_at(self._next) == self._next + 1 or (
            self._number_at(self._next + 1) != self._next + 2
        ):
            self._drains_at_a_hole = 0
            return
        self._drains_at_a_hole += 1
        if self._drains_at_a_hole >= _DRAINS_UNTIL_LOST:
            self._drains_at_a_hole = 0
            self._next += 1
            self.counts.overrun += 1

    def _follows(self, raw: bytes, offset: int) -> bool:
        """Whether the record after the missing one is there, or lies outside of `raw`."""
        number = raw[offset : offset + 8]
        return len(number) < 8 or int.from_bytes(number, "little") == self._next + 2

    def _number_at(self, index: int) -> int:
        place = HEADER_BYTES + (index & (self._n - 1)) * RECORD_BYTES
        try:
            return int.from_bytes(os.pread(self._fd, 8, place), "little")
        except OSError:
            return 0

    def _read_chunk(self, n_records: int) -> bytes:
        """Bytes from the next record on, up to where the ring wraps; empty when unreadable."""
        slot = self._next & (self._n - 1)
        wanted = min(n_records, self._n - slot, _CHUNK_RECORDS)
        try:
            return os.pread(self._fd, wanted * RECORD_BYTES, HEADER_BYTES + slot * RECORD_BYTES)
        except OSError:
            return b""

    def _announced(self) -> int:
        """How many new records the head promises; at least one is always looked for."""
        return max(1, self._head() - self._next)

    def _head(self) -> int:
        """Records ever written, in the writer's own words; 0 when unreadable."""
        try:
            return int.from_bytes(os.pread(self._fd, 8, HEAD_OFFSET), "little")
        except OSError:
            return 0

    def _skip_overwritten(self, number: int) -> bool:
        """The slot holds a younger record: go on at the oldest still there. False = garbage."""
        found = number - 1
        if found < self._next or (found - self._next) & (self._n - 1):
            return False
        oldest = self._newest(found) - self._n + 1
        self.counts.overrun += oldest - self._next
        self._next = oldest
        return True

    def _newest(self, found: int) -> int:
        """The youngest record known: what the head says, where that record bears it out."""
        newest = self._head() - 1
        if newest <= found:
            return found
        try:
            at = HEADER_BYTES + (newest & (self._n - 1)) * RECORD_BYTES
            number = record_number(os.pread(self._fd, RECORD_BYTES, at), 0)
        except OSError:
            return found
        is_there = number is not None and number > newest and not (number - 1 - newest) % self._n
        return newest if is_there else found
