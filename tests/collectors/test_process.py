"""The process collector on real processes and on a made-up /proc."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.collectors import process as process_module
from slurm_io.collectors.base import Context, Member, Tick
from slurm_io.collectors.process import ProcessCollector, parse_io
from slurm_io.host.pidstat import parse_stat
from slurm_io.store.schema import TABLES
from tests.collectors.real_process import context, member, running

SAMPLES = Path(__file__).parents[1] / "fixtures" / "sampler"


def rows_of(collector: ProcessCollector, mono_ns: int) -> list[dict[str, Any]]:
    names = TABLES["process"].column_names()
    tick = Tick(mono_ns + 5, mono_ns, None)
    return [dict(zip(names, row, strict=True)) for row in collector.collect(tick)]


def test_a_reader_shows_its_reads_and_its_cpu_time(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(1 << 20))
    script = (
        "file = open(sys.argv[1], 'rb', buffering=0)\n"
        "ready()\n"
        "while True:\n"
        "    file.seek(0); file.read()"
    )
    with running(script, tmp_path / "data") as pid:
        who = member(pid)
        collector = ProcessCollector()
        assert collector.open(context([who])).state == "on"
        before = Path(f"/proc/{pid}/io").read_text().split()
        assert rows_of(collector, 1_000_000_000) == [], "the first sight is no interval"
        time.sleep(0.3)
        row = rows_of(collector, 1_300_000_000)[0]
        after = Path(f"/proc/{pid}/io").read_text().split()
        collector.close()
    assert row["interval_ns"] == 300_000_000
    assert (row["pid"], row["starttime"], row["rank"], row["role"]) == (
        pid,
        who.starttime,
        3,
        "worker",
    )
    assert 1 << 20 <= row["rchar_bytes"] <= int(after[1]) - int(before[1])
    assert 0 < row["syscr"] <= int(after[5]) - int(before[5])
    assert row["wchar_bytes"] == 0
    assert 10_000_000 <= row["cpu_ns"] <= 3_000_000_000
    assert row["rss_bytes"] > 1 << 20
    assert row["threads"] == 1


def made_up(root: Path, *members: Member) -> Context:
    return Context(
        proc_root=root,
        sys_root=root,
        members=lambda: members,
        cgroup_paths=lambda: (),
        capacity_mounts=lambda: (),
        phase_of=lambda pid: ("none", None),
    )


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def write_process(
    root: Path, pid: int, starttime: int = 50, ticks: int = 0, delay: int = 0
) -> None:
    folder = root / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (root / "self").mkdir(exist_ok=True)
    fields = ["0"] * 50
    fields[0], fields[1], fields[7], fields[9] = "S", "1", "10", "3"
    fields[11], fields[17], fields[19], fields[21], fields[39] = (
        str(ticks), "4", str(starttime), "100", str(delay),
    )  # fmt: skip
    (folder / "stat").write_text(f"{pid} (a) b) {' '.join(fields)}")
    (folder / "io").write_text(
        f"rchar: {ticks}\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n"
        "cancelled_write_bytes: 0\n"
    )


def a_member(pid: int, starttime: int = 50) -> Member:
    return Member(pid, starttime, 1, "x", None, "other")


@pytest.mark.parametrize(
    ("switch", "delay", "expected"),
    [("0", 9, None), ("1", 9, 9), (None, 9, 9), (None, 0, None)],
)
def test_delays_are_null_unless_the_kernel_counts_them(
    tmp_path: Path, switch: str | None, delay: int, expected: int | None
) -> None:
    write_process(tmp_path, 7)
    if switch is not None:
        (tmp_path / "sys/kernel").mkdir(parents=True)
        (tmp_path / "sys/kernel/task_delayacct").write_text(switch + "\n")
    collector = ProcessCollector()
    collector.open(made_up(tmp_path, a_member(7)))
    rows_of(collector, 1)
    write_process(tmp_path, 7, ticks=5, delay=delay)
    row = rows_of(collector, 11)[0]
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    assert row["blkio_delay_ns"] == (None if expected is None else expected * tick_ns)
    assert (row["cpu_ns"], row["comm"], row["threads"]) == (5 * tick_ns, "a) b", 4)
    assert (row["rchar_bytes"], row["write_bytes"]) == (5, 0)


def test_a_pid_that_was_reused_gives_no_row(tmp_path: Path) -> None:
    write_process(tmp_path, 7)
    collector = ProcessCollector()
    collector.open(made_up(tmp_path, a_member(7)))
    rows_of(collector, 1)
    write_process(tmp_path, 7, starttime=99, ticks=1000)
    assert rows_of(collector, 11) == []


def test_a_process_that_is_gone_gives_no_row(tmp_path: Path) -> None:
    write_process(tmp_path, 7)
    collector = ProcessCollector()
    collector.open(made_up(tmp_path, a_member(7), a_member(8)))
    rows_of(collector, 1)
    assert [row["pid"] for row in rows_of(collector, 11)] == [7]


def test_a_process_that_does_nothing_rests_and_its_next_row_covers_all_of_it(
    tmp_path: Path,
) -> None:
    second = 1_000_000_000
    write_process(tmp_path, 7)
    collector = ProcessCollector()
    collector.open(made_up(tmp_path, a_member(7)))
    spans: list[tuple[int, int, int]] = []
    for tick in range(16):
        if tick == 9:
            write_process(tmp_path, 7, ticks=6)
        if tick == 15:
            write_process(tmp_path, 7, ticks=8)
        for row in rows_of(collector, tick * second + 1):
            spans.append((tick, row["interval_ns"] // second, row["rchar_bytes"]))
    assert spans == [(1, 1, 0), (3, 2, 0), (8, 5, 0), (13, 5, 6), (14, 1, 0)]
    assert [row["rchar_bytes"] for row in rows_of(collector, 16 * second + 1)] == [2]


def test_slowed_rows_lose_nothing_and_leave_no_second_without_rows(tmp_path: Path) -> None:
    second, pids = 1_000_000_000, range(10, 60)
    collector = ProcessCollector()
    collector.open(made_up(tmp_path, *(a_member(pid) for pid in pids)))
    collector.slow_down(5)
    rows: list[dict[str, Any]] = []
    seconds_with_rows = set()
    for tick in range(60):
        for pid in pids:
            write_process(tmp_path, pid, ticks=tick)
        found = rows_of(collector, tick * second + 1)
        rows += found
        seconds_with_rows |= {tick} if found else set()
    assert set(range(15, 60)) <= seconds_with_rows
    assert len(rows) == pytest.approx(50 * 60 / 5, rel=0.15)
    for pid in pids:
        mine = [row for row in rows if row["pid"] == pid]
        assert sum(row["rchar_bytes"] for row in mine) == (
            sum(row["interval_ns"] for row in mine) // second
        )
        assert len({row["interval_ns"] for row in mine}) > 1


def test_at_full_pace_again_nothing_rests(tmp_path: Path) -> None:
    """The sampler's last tick is one: what resting processes did until then is not lost."""
    second, pids = 1_000_000_000, range(10, 20)
    collector = ProcessCollector()
    collector.open(made_up(tmp_path, *(a_member(pid) for pid in pids)))
    collector.slow_down(10)
    for tick in range(40):
        for pid in pids:
            write_process(tmp_path, pid, ticks=tick)
        rows_of(collector, tick * second + 1)
    collector.slow_down(1)
    assert {row["pid"] for row in rows_of(collector, 40 * second + 1)} == set(pids)


def test_refused_io_is_null_and_the_rest_stays(tmp_path: Path) -> None:
    write_process(tmp_path, 7)
    (tmp_path / "7" / "io").unlink()
    collector = ProcessCollector()
    collector.open(made_up(tmp_path, a_member(7)))
    rows_of(collector, 1)
    write_process(tmp_path, 7, ticks=3)
    (tmp_path / "7" / "io").unlink()
    row = rows_of(collector, 11)[0]
    assert (row["rchar_bytes"], row["syscr"], row["write_bytes"]) == (None, None, None)
    assert row["cpu_ns"] > 0


def test_above_the_cap_files_are_opened_anew_each_time(tmp_path: Path) -> None:
    for pid in range(10, 30):
        write_process(tmp_path, pid)
    collector = ProcessCollector()
    collector._most_kept = 5
    collector.open(made_up(tmp_path, *(a_member(pid) for pid in range(10, 30))))
    before = open_files()
    rows_of(collector, 1)
    assert open_files() - before <= 10
    assert len(rows_of(collector, 11)) == 20
    collector.close()
    assert open_files() == before


def test_the_manuals_samples() -> None:
    stat = parse_stat((SAMPLES / "stat.txt").read_bytes())
    assert stat is not None
    assert (stat.comm, stat.state, stat.ppid, stat.starttime) == ("vim", "R", 5392, 82375)
    assert (stat.minflt, stat.majflt, stat.utime_ticks, stat.stime_ticks) == (32533, 26, 1677, 44)
    assert (stat.num_threads, stat.rss_pages, stat.blkio_delay_ticks) == (1, 1981, 31)
    io = parse_io((SAMPLES / "io.txt").read_bytes())
    assert io == (750339, 818609, 7405, 5245, 1024, 2048)


@given(st.binary(max_size=400))
def test_no_bytes_break_the_parsers(raw: bytes) -> None:
    parse_stat(raw)
    parse_io(raw)
    parse_io(b"rchar: " + raw)


@given(st.binary(max_size=20).filter(lambda comm: b"\n" not in comm))
def test_any_name_is_read_whole(comm: bytes) -> None:
    rest = b" S 1 " + b"7 " * 48
    stat = parse_stat(b"5 (" + comm + b")" + rest)
    assert stat is not None
    assert stat.comm == comm.decode("utf-8", "replace")
    assert stat.ppid == 1


def test_of_more_processes_than_a_budget_bears_ranks_and_workers_are_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "_MOST_WATCHED", 2)
    members = []
    for pid, role in ((11, "other"), (12, "other"), (13, "worker"), (14, "rank")):
        folder = tmp_path / str(pid)
        folder.mkdir()
        own = Path("/proc/self/stat").read_text()
        (folder / "stat").write_text(own)
        parsed = parse_stat(own.encode())
        assert parsed is not None
        members.append(Member(pid, parsed.starttime, 1, "python", 0, role))  # type: ignore[arg-type]
    collector = ProcessCollector()
    collector.open(made_up(tmp_path, *members))
    rows_of(collector, 1_000_000_000)
    assert {row["pid"] for row in rows_of(collector, 2_000_000_000)} == {13, 14}
    assert collector.facts()["left_out"] == 2
    collector.close()


def test_ranks_and_workers_tell_now_and_then_how_they_ran_and_queued(tmp_path: Path) -> None:
    with running("ready()\nwhile True: pass") as pid:
        for role, is_told in (("worker", True), ("rank", True), ("other", False)):
            collector = ProcessCollector()
            collector.open(context([member(pid, role)]))
            told = []
            for second in range(1, 30):
                time.sleep(0.01)
                told += [
                    (row["main_ns"], row["queue_ns"])
                    for row in rows_of(collector, second * 1_000_000_000)
                ]
            collector.close()
            known = [one for one in told if one != (None, None)]
            assert bool(known) == is_told
            assert len(known) < len(told)
            assert all(ran >= 0 and 0 <= queued <= 1_000_000_000 for ran, queued in known)


def test_the_first_row_of_a_newborn_begins_at_its_birth(tmp_path: Path) -> None:
    """A worker lives for one pass over the data: what it read before the first look counts."""
    (tmp_path / "data").write_bytes(bytes(1 << 20))
    script = "open(sys.argv[1], 'rb', buffering=0).read()\nready()\nsys.stdin.read()"
    before_ns = time.monotonic_ns()
    with running(script, tmp_path / "data") as pid:
        collector = ProcessCollector()
        collector.open(context([member(pid)]))
        now_ns = time.monotonic_ns()
        [row] = rows_of(collector, now_ns)
        told = parse_io(Path(f"/proc/{pid}/io").read_bytes())
        collector.close()
    assert told is not None
    assert row["rchar_bytes"] == told[0] >= 1 << 20
    assert 0 < row["interval_ns"] <= now_ns - before_ns + 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    assert row["cpu_ns"] <= row["interval_ns"]


def test_one_that_comes_back_as_a_member_is_not_counted_from_its_birth_again() -> None:
    with running("ready()\nsys.stdin.read()") as pid:
        members = [member(pid)]
        collector = ProcessCollector()
        collector.open(replace(context([]), members=lambda: members))
        assert len(rows_of(collector, time.monotonic_ns())) == 1
        members = []
        assert rows_of(collector, time.monotonic_ns()) == []
        members = [member(pid)]
        assert rows_of(collector, time.monotonic_ns()) == []
        collector.close()


def test_one_that_has_lived_for_long_has_no_row_at_first_sight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_module, "_NEWBORN_NS", 0)
    with running("ready()\nsys.stdin.read()") as pid:
        collector = ProcessCollector()
        collector.open(context([member(pid)]))
        time.sleep(0.02)
        assert rows_of(collector, time.monotonic_ns()) == []
        collector.close()
