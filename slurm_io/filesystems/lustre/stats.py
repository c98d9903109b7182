"""``stats`` files of Lustre (llite, osc, mdc, md_stats, read_ahead_stats, servers' too).

    snapshot_time             1510950459.772792457 secs.nsecs
    read_bytes                1 samples [bytes] 4194304 4194304 4194304
    open                      136 samples [regs]
    ost_write                 18210286 samples [usec] 119 1348857 110277857878 8341476394008222

Name, count, unit, then min, max, sum and sum of squares as far as the version prints them. A
counter that is zero has no line. Names of read_ahead_stats hold blanks up to 2.14, so a line is
read from its word ``samples``. min and max are of the time since the counters were cleared; the sum
of squares wraps and is no use for judgement.
"""

from __future__ import annotations

from typing import NamedTuple

_LARGEST = 1 << 63
_MOST_DIGITS = 40
_NS_OF_UNIT = {
    "nsec": 1, "nsecs": 1, "usec": 1_000, "usecs": 1_000, "msec": 1_000_000, "msecs": 1_000_000,
    "sec": 1_000_000_000, "secs": 1_000_000_000,
}  # fmt: skip
_TIMES = (b"snapshot_time", b"start_time", b"elapsed_time")


class Counter(NamedTuple):
    """One line. What the version does not print is None, and so is a sum that cannot be."""

    samples: int
    unit: str
    minimum: int | None = None
    maximum: int | None = None
    sum: int | None = None
    sum_of_squares: int | None = None

    @property
    def time_ns(self) -> int | None:
        """The sum as a time; None when it is of bytes, pages or nothing."""
        factor = _NS_OF_UNIT.get(self.unit)
        return None if factor is None or self.sum is None else self.sum * factor


class Times(NamedTuple):
    """The header, seconds. On 2.15.0 and 2.15.1 the snapshot is counted from boot (LU-16231): use
    one's own clock for rates. A falling `elapsed_s` means that somebody cleared the counters."""

    snapshot_s: float | None = None
    start_s: float | None = None
    elapsed_s: float | None = None


class Stats(NamedTuple):
    """One file. `unread_lines` counts lines of no known shape."""

    times: Times
    counters: dict[str, Counter]
    unread_lines: int

    def samples(self, name: str) -> int:
        """How often; a counter without a line is zero."""
        found = self.counters.get(name)
        return 0 if found is None else found.samples


def parse_stats(content: bytes) -> Stats:
    """All counters of a file. Of two lines with one name the first counts."""
    times = Times()
    counters: dict[str, Counter] = {}
    unread = 0
    for line in content.split(b"\n"):
        words = line.split()
        if not words:
            continue
        found = _counter(words)
        if found is not None:
            counters.setdefault(found[0], found[1])
        elif words[0].rstrip(b":") in _TIMES:
            times = with_time(times, words)
        else:
            unread += not words[0].endswith(b"=")  # the name of the parameter, from lctl
    return Stats(times, counters, unread)


def behind_times(content: bytes) -> bytes:
    """The file without its header: two equal ones mean that nothing was counted."""
    start = 0
    while content.startswith(_TIMES, start):
        end = content.find(b"\n", start)
        if end < 0:
            return b""
        start = end + 1
    return content[start:]


def with_time(times: Times, words: list[bytes]) -> Times:
    """The header with one more of its lines, given as words. The fraction of the oldest form
    (``secs.usecs``) is a number of microseconds that is not filled up with zeros."""
    if len(words) < 2:
        return times
    whole, _, fraction = words[1].partition(b".")
    digits = len(fraction) <= _MOST_DIGITS and (fraction or b"0").isdigit()
    if not (whole.isdigit() and len(whole) <= _MOST_DIGITS and digits):
        return times
    if b"usecs" in b"".join(words[2:]):
        fraction = fraction.rjust(6, b"0")
    seconds = float(whole + b"." + (fraction or b"0"))
    field = words[0].rstrip(b":").decode().removesuffix("_time") + "_s"
    return times._replace(**{field: seconds})


def _counter(words: list[bytes]) -> tuple[str, Counter] | None:
    try:
        at = words.index(b"samples", 2)
        samples, numbers = int(words[at - 1]), [*map(int, words[at + 2 : at + 6])]
        unit = words[at + 1].decode("utf-8", "replace")
    except (ValueError, IndexError):
        return None
    if not 0 <= samples < _LARGEST or unit[0] != "[" or unit[-1] != "]":
        return None
    if len(numbers) > 2 and not 0 <= numbers[2] < _LARGEST:
        return _name(words, at), Counter(samples, unit[1:-1], *numbers)._replace(sum=None)
    return _name(words, at), Counter(samples, unit[1:-1], *numbers)


def _name(words: list[bytes], at: int) -> str:
    return b" ".join(words[: at - 1]).decode("utf-8", "replace")
