"""The block table is `iostat -dxk 1` within rounding, interval by interval and over the whole time.

The two read /proc/diskstats a few milliseconds apart. So the load (fio on a partition, a bare loop
device and, where the kernel has it, a RAID 0) works in bursts: it is stopped, with nothing in
flight, whenever iostat reads, and our collector reads as soon as iostat's report is there. Both
then see the very same counters, and every figure must agree:

- Means (r_await, rareq-sz, …) do not depend on the interval's length: within iostat's rounding to
  two places, 0.005.
- Rates, queue and utilisation do, and each of the two takes its own clock. iostat's interval is
  the one that its rate of the busiest counter implies; every other figure must follow from that
  same interval within 0.005 and the error which that rate's own rounding brings in. It must lie
  within 0.15 s of ours.
- A reading that fell into a burst all the same (a busy machine delayed the stop) is left out, with
  the two intervals that it ends and begins; more than half may not be.
- Over the whole time the counts of all our rows must be those of one long report of another iostat:
  0.005 times the seconds for its rounding and a thousandth for its clock of 10 ms.

SLURM_IO_IOSTAT_SECONDS shortens the long version.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slurm_io.collectors.base import Context, Tick
from slurm_io.collectors.block import Block
from slurm_io.store.schema import TABLES
from tests.labs.fio_load import LoopDisks, fio_in_bursts, load_missing
from tests.labs.iostat import IOSTAT, Report, RunningIostat, kilobytes_s, running_iostat

pytestmark = pytest.mark.root

ROUNDING = 0.0051
BURST_S = 0.5
LATEST_STOP_S = 0.8
COLUMNS = TABLES["block"].column_names()
COUNTS = {"r/s": "r_s", "w/s": "w_s", "d/s": "d_s", "f/s": "f_s"}
MERGES = {"rrqm/s": "rrqm_s", "wrqm/s": "wrqm_s", "drqm/s": "drqm_s"}
KILOBYTES = {"r": "rkB_s", "w": "wkB_s", "d": "dkB_s"}
MEANS = {
    "r_await": "r_await", "w_await": "w_await", "d_await": "d_await", "f_await": "f_await",
    "rareq-sz": "rareq_sz", "wareq-sz": "wareq_sz", "dareq-sz": "dareq_sz",
}  # fmt: skip
OTHERS = {"aqu-sz": "aqu_sz", "util": "util"}

Rows = dict[str, dict[str, Any]]


@dataclass
class Interval:
    """One report of iostat and our rows of the same moment."""

    report: Report
    rows: Rows
    length_s: float
    quiet: bool


@dataclass
class Tally:
    """What was compared, for whoever reads the output."""

    intervals: int = 0
    left_out: int = 0
    figures: int = 0
    requests: int = 0
    worst: float = 0.0
    lengths_s: list[float] = field(default_factory=list)

    def check(self, name: str, ours: float, theirs: float, tolerance: float) -> None:
        self.figures += 1
        self.worst = max(self.worst, abs(ours - theirs) / tolerance)
        assert abs(ours - theirs) <= tolerance, f"{name}: {ours} and iostat's {theirs}"


class OurSide:
    """The block collector on this machine."""

    def __init__(self) -> None:
        self._block = Block()
        self._block.open(
            Context(Path("/proc"), Path("/sys"), tuple, tuple, tuple, lambda pid: ("none", None))
        )
        self._last_ns = 0
        self.length_s = 0.0

    def rows(self, names: list[str]) -> Rows:
        now_ns = time.monotonic_ns()
        self.length_s, self._last_ns = (now_ns - self._last_ns) / 1e9, now_ns
        found = self._block.collect(Tick(time.time_ns(), now_ns, None))
        named = [dict(zip(COLUMNS, row, strict=True)) for row in found]
        return {row["device"]: row for row in named if row["device"] in names}

    def close(self) -> None:
        self._block.close()


def wait_asleep(iostat: RunningIostat) -> None:
    """It has taken its first reading."""
    seen = 0
    while seen < 10:
        _, _, rest = Path(f"/proc/{iostat.process.pid}/stat").read_text().partition("(iostat) ")
        seen = seen + 1 if rest.startswith("S") else 0
        time.sleep(0.02)


def compare(disks: LoopDisks, seconds: int) -> Tally:
    """fio for so long, and everything above."""
    with fio_in_bursts(disks.targets, seconds + 30) as bursts:
        time.sleep(0.5)
        bursts.stop(disks.names)
        began_s = time.monotonic()
        with (
            running_iostat(disks.names, seconds, 1) as whole,
            running_iostat(disks.names, 1, seconds - 2) as series,
        ):
            wait_asleep(whole)
            wait_asleep(series)
            ours = OurSide()
            ours.rows(disks.names)
            intervals = list(seen_together(disks, bursts, series, ours))
            (total,) = whole.reports()
            longest_s = time.monotonic() - began_s
            rest = ours.rows(disks.names)
            ours.close()
    assert not rest, "the load was not over"
    tally = Tally()
    for interval in intervals:
        compare_interval(interval, disks.names, tally)
    compare_sums(intervals, total, (seconds, longest_s), disks.names, tally)
    assert tally.intervals >= tally.left_out, f"machine too busy: {tally}"
    return tally


def seen_together(
    disks: LoopDisks, bursts: Any, series: RunningIostat, ours: OurSide
) -> Iterator[Interval]:
    began_quiet = ended_quiet = True
    for report in series.reports():
        arrived_s = time.monotonic()
        rows = ours.rows(disks.names)
        yield Interval(report, rows, ours.length_s, began_quiet and ended_quiet)
        bursts.go()
        time.sleep(BURST_S)
        bursts.stop(disks.names)
        began_quiet, ended_quiet = ended_quiet, time.monotonic() - arrived_s < LATEST_STOP_S
    # The burst behind the last report is seen by the long report: let our side see it too.
    yield Interval({}, ours.rows(disks.names), ours.length_s, False)


def counts_of(rows: Rows, device: str, column: str) -> float:
    """How much of it in the interval; 0 without a row, None without the counter."""
    row = rows.get(device)
    value = row[column] if row is not None else 0.0
    return 0.0 if value is None else value * row["interval_ns"] / 1e9 if row else 0.0


def compare_interval(interval: Interval, names: list[str], tally: Tally) -> None:
    if not interval.quiet:
        tally.left_out += bool(interval.report)
        return
    tally.intervals += 1
    report, rows = interval.report, interval.rows
    busiest, most = max(
        (
            ((name, rate), counts_of(rows, name, column))
            for name in names
            for rate, column in COUNTS.items()
        ),
        key=lambda each: each[1],
    )
    if most < 0.5:
        assert not any(report[name][rate] for name in names for rate in COUNTS)
        return
    their_rate = report[busiest[0]][busiest[1]]
    length_s = most / their_rate
    tally.lengths_s.append(length_s)
    assert abs(length_s - interval.length_s) < 0.15, (length_s, interval.length_s)
    unsure = ROUNDING / their_rate
    for name in names:
        compare_device(report[name], rows, name, length_s, unsure, tally)


def compare_device(
    theirs: dict[str, float], rows: Rows, name: str, length_s: float, unsure: float, tally: Tally
) -> None:
    for rate, column in {**COUNTS, **MERGES}.items():
        count = counts_of(rows, name, column)
        tally.requests += round(count) if rate in COUNTS else 0
        ours = count / length_s
        tally.check(f"{name} {rate}", ours, theirs[rate], ROUNDING + ours * unsure)
    for direction, column in KILOBYTES.items():
        ours = counts_of(rows, name, column) / length_s
        stated = kilobytes_s(theirs, direction)
        tally.check(f"{name} {column}", ours, stated, ROUNDING + ours * unsure)
    row = rows.get(name)
    for head, column in MEANS.items():
        ours = (row or {}).get(column) or 0.0  # ours is null where iostat prints 0
        tally.check(f"{name} {head}", ours, theirs[head], ROUNDING)
    for head, column in OTHERS.items():
        ours = counts_of(rows, name, column) / length_s
        tally.check(f"{name} {head}", ours, theirs[head], ROUNDING + ours * unsure)


def compare_sums(
    intervals: list[Interval],
    total: Report,
    length_s: tuple[float, float],
    names: list[str],
    tally: Tally,
) -> None:
    """`length_s`: what iostat was told to wait, and how long it was away, for it may wake late."""
    shortest_s, longest_s = length_s
    for name in names:
        for rate, column in COUNTS.items():
            ours = sum(counts_of(each.rows, name, column) for each in intervals)
            stated = total[name][rate]
            theirs = min(max(ours, stated * shortest_s), stated * longest_s)
            tolerance = ROUNDING * longest_s
            tally.check(f"{name} {rate} in all", ours, theirs, tolerance)


def run(tmp_path: Path, seconds: int, with_md: bool = False) -> Tally:
    reason = load_missing(with_md) or (None if IOSTAT else "iostat (sysstat) is not installed")
    if reason:
        pytest.skip(reason)
    with LoopDisks(tmp_path, with_md) as disks:
        tally = compare(disks, seconds)
        print(f"{seconds} s on {', '.join(disks.names)}: {tally.figures} figures of")
    shortest, longest = min(tally.lengths_s), max(tally.lengths_s)
    print(
        f"{tally.requests} requests in {tally.intervals} intervals ({tally.left_out} left out), "
        f"iostat's intervals {shortest:.3f} to {longest:.3f} s, "
        f"largest difference {tally.worst:.0%} of what rounding allows"
    )
    assert tally.requests > 10 * seconds
    return tally


def test_every_figure_is_iostats_for_twenty_seconds(tmp_path: Path) -> None:
    run(tmp_path, 20)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_figure_is_iostats_for_five_minutes(tmp_path: Path) -> None:
    run(tmp_path, int(os.environ.get("SLURM_IO_IOSTAT_SECONDS", "300")))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_figure_is_iostats_on_a_raid(tmp_path: Path) -> None:
    run(tmp_path, int(os.environ.get("SLURM_IO_IOSTAT_SECONDS", "300")), with_md=True)
