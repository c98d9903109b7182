"""The log collector on real processes that write real files."""

from __future__ import annotations

import json
import os
import pty
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from slurm_io.collectors import log as module
from slurm_io.collectors.base import Context, Member, Row, Tick
from slurm_io.collectors.log import JobLog
from slurm_io.collectors.log.outputs import find_outputs, kind_of
from slurm_io.collectors.log.watched import checked_piece
from slurm_io.host.pidstat import parse_stat
from slurm_io.store.schema import TABLES
from tests.joblog.logs import MEGATRON
from tests.labs.slowfs import SlowFs, fuse_missing

COLUMNS = TABLES["log"].column_names()
NOBODY = 65534
NS = 1_000_000_000


def megatron(*steps: int) -> bytes:
    lines = (MEGATRON.format(second=1, step=step, samples=step) + "\n" for step in steps)
    return "".join(lines).encode()


class Writer:
    """A process (`cat`) whose standard output is a file, and what is written through it."""

    def __init__(
        self, output: Path | int, role: Literal["rank", "other"] = "rank", user: int | None = None
    ) -> None:
        self.path = output if isinstance(output, Path) else None
        file = (
            os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644) if self.path else output
        )
        self.process = subprocess.Popen(
            ["cat"], stdin=subprocess.PIPE, stdout=file, stderr=subprocess.DEVNULL,
            **({"user": user, "group": user, "extra_groups": []} if user is not None else {}),
        )  # fmt: skip
        if self.path:
            os.close(file)
        stat = parse_stat(Path(f"/proc/{self.process.pid}/stat").read_bytes())
        assert stat is not None
        pid, rank = self.process.pid, 0 if role == "rank" else None
        self.member = Member(pid, stat.starttime, stat.ppid, "cat", rank, role)

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        before = self.path.stat().st_size if self.path else 0
        self.process.stdin.write(data)
        self.process.stdin.flush()
        end_s = time.monotonic() + 20
        while self.path and self.path.stat().st_size < before + len(data):
            assert time.monotonic() < end_s
            time.sleep(0.002)

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Job:
    """Members, a collector over the real /proc, and a clock of its own."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.writers: list[Writer] = []
        self.collector = JobLog()
        self.seconds = 0.0
        self.start_ns = time.time_ns()

    def writer(self, output: Path | int, **options: Any) -> Writer:
        writer = Writer(output, **options)
        self.writers.append(writer)
        self.members = [*self.members, writer.member]
        return writer

    def forget(self, writer: Writer) -> None:
        self.members = [member for member in self.members if member is not writer.member]

    def open(self, uid: int | None = None) -> Job:
        none: Callable[[], Sequence[str]] = tuple
        context = Context(
            Path("/proc"), Path("/sys"), lambda: self.members, none, none,
            lambda pid: ("none", None), uid,
        )  # fmt: skip
        assert self.collector.open(context).state in ("on", "partial")
        return self

    def tick(self, after_s: float = 1.0) -> list[dict[str, Any]]:
        self.seconds += after_s
        mono_ns = int(self.seconds * NS)
        rows = self.collector.collect(Tick(self.start_ns + mono_ns, mono_ns, NS))
        return [named(row) for row in rows]

    def look(self, after_s: float = 10.0) -> list[dict[str, Any]]:
        """Ticks until the look that is due then has brought its rows."""
        rows = self.tick(after_s)
        end_s = time.monotonic() + 20
        while self.collector._probes.is_asking:
            assert time.monotonic() < end_s
            time.sleep(0.002)
            rows += self.tick(0.001)
        return rows

    def looks(self, number: int = 2) -> list[dict[str, Any]]:
        """A step is held back until the look after the one that found it."""
        return [row for _ in range(number) for row in self.look()]

    def facts(self) -> dict[str, Any]:
        return dict(self.collector.facts())

    def file_facts(self, path: Path) -> dict[str, Any]:
        [facts] = [one for one in self.facts()["files"] if one["path"] == str(path)]
        return dict(facts)


def named(row: Row) -> dict[str, Any]:
    found = dict(zip(COLUMNS, row, strict=True))
    found["detail"] = json.loads(found["detail"])
    return found


def steps(rows: list[dict[str, Any]]) -> list[int]:
    return [row["step"] for row in rows]


@pytest.fixture
def job() -> Iterator[Job]:
    job = Job()
    yield job
    job.collector.close()
    for writer in job.writers:
        writer.process.kill()
        writer.end()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "slurm-1.out"


def test_steps_come_as_they_are_printed(job: Job, path: Path) -> None:
    writer = job.writer(path)
    assert job.open().looks() == []
    writer.write(megatron(1, 2, 3))
    assert steps(job.look()) == [1, 2]
    [row] = job.look()
    assert (row["source"], row["step"], row["step_time_s"]) == ("megatron", 3, 2.5)
    assert row["samples_per_s"] == 409.6
    assert row["detail"]["interval_steps"] == 1
    facts = job.facts()
    assert (facts["state"], facts["reason"]) == ("on", "")
    assert facts["rows_by_source"] == {"megatron": 3}
    assert job.file_facts(path)["bytes_read"] == path.stat().st_size


def test_a_look_every_ten_seconds_and_not_more_often(job: Job, path: Path) -> None:
    writer = job.writer(path)
    job.open().look()
    writer.write(megatron(1, 2, 3))
    for _ in range(9):
        assert job.tick() == []
        assert not job.collector._probes.is_asking
    assert steps(job.look(1.0)) == [1, 2]


def test_slowed_down_it_looks_less_often_and_loses_nothing(job: Job, path: Path) -> None:
    writer = job.writer(path)
    job.open().look()
    job.collector.slow_down(5)
    writer.write(megatron(1, 2, 3))
    for _ in range(49):
        assert job.tick() == []
        assert not job.collector._probes.is_asking
    assert steps(job.look(1.0)) == [1, 2]


@pytest.mark.parametrize("factor", [1, 5])
def test_a_file_let_go_just_before_the_last_tick_is_read_to_its_end(
    job: Job, path: Path, factor: int
) -> None:
    """The job may end a moment after a tick; the last tick is at full pace."""
    writer = job.writer(path)
    writer.write(megatron(1, 2, 3))
    job.open().look()
    job.collector.slow_down(factor)
    job.tick()
    writer.write(megatron(4, 5))
    writer.end()
    job.collector.slow_down(1)
    assert steps(job.tick(0.1)) == [3, 4, 5]


def test_a_new_file_is_looked_at_without_waiting(job: Job, tmp_path: Path) -> None:
    job.writer(tmp_path / "one")
    job.open().look()
    writer = job.writer(tmp_path / "two")
    writer.write(megatron(1, 2))
    assert steps(job.look(2.0)) == [1]


def test_one_file_of_many_processes_and_names_is_read_once(job: Job, tmp_path: Path) -> None:
    first = job.writer(tmp_path / "one")
    job.writer(tmp_path / "one")
    os.link(tmp_path / "one", tmp_path / "other")
    job.writer(tmp_path / "other", role="other")
    job.open().look()
    first.write(megatron(1, 2, 3))
    assert steps(job.looks(3)) == [1, 2, 3]


def test_ranks_on_a_pipe_and_the_batch_shell_on_a_file(job: Job, path: Path) -> None:
    reader, writer_end = os.pipe()
    job.writer(writer_end)
    shell = job.writer(path, role="other")
    job.open().look()
    shell.write(megatron(1, 2))
    assert steps(job.looks(3)) == [1, 2]
    assert job.facts()["left_alone"] == {"pipe": 1}
    os.close(reader)
    os.close(writer_end)


def test_a_pipe_is_left_alone_and_nothing_is_taken_from_it(job: Job) -> None:
    reader, writer_end = os.pipe()
    job.writer(writer_end).write(b"for somebody else")
    job.open().looks()
    facts = job.facts()
    assert facts["state"] == "off"
    assert "pipe" in facts["reason"] and "no file" in facts["reason"]
    assert os.read(reader, 100) == b"for somebody else"
    job.members = []
    job.looks()
    assert job.facts()["state"] == "off"  # when the job is over the reason still stands
    os.close(reader)
    os.close(writer_end)


def test_a_terminal_is_left_alone(job: Job) -> None:
    ours, theirs = pty.openpty()
    job.writer(theirs)
    job.open().looks()
    assert "terminal" in job.facts()["reason"]
    os.close(ours)
    os.close(theirs)


def test_before_any_process_there_is_nothing_to_say(job: Job) -> None:
    job.open().looks()
    assert job.facts()["state"] == "absent"


def test_of_a_rewritten_bar_each_look_has_one_row(job: Job, path: Path) -> None:
    bar = "\r {0:3d}%|█         | {0}/100 [00:{0:02d}<01:00,  1.00it/s]"
    writer = job.writer(path)
    job.open().look()
    writer.write("".join(bar.format(n) for n in range(20)).encode())
    rows = job.look()
    writer.write("".join(bar.format(n) for n in range(20, 55)).encode())
    rows += job.look()
    assert steps(rows) == [19, 54]
    assert [row["detail"]["elapsed_s"] for row in rows] == [19, 54]
    assert job.looks() == []


class TestFilesThatChange:
    def test_emptied_by_log_rotation(self, job: Job, path: Path) -> None:
        writer = job.writer(path)
        job.open().look()
        writer.write(megatron(1, 2))
        rows = job.look()
        os.truncate(path, 0)
        writer.write(megatron(3))
        rows += job.looks(3)
        assert steps(rows) == [1, 2, 3]
        assert job.file_facts(path)["truncations"] == 1

    def test_renamed_and_begun_anew_by_the_next_process(self, job: Job, path: Path) -> None:
        writer = job.writer(path)
        job.open().look()
        writer.write(megatron(1, 2))
        rows = job.look()
        path.rename(path.with_suffix(".1"))
        writer.end()
        job.forget(writer)
        job.writer(path).write(megatron(3, 4))
        rows += job.looks(4)
        assert sorted(steps(rows)) == [1, 2, 3, 4]
        assert "early" not in rows[-1]["detail"]

    def test_renamed_while_it_is_written(self, job: Job, path: Path) -> None:
        writer = job.writer(path)
        job.open().look()
        writer.write(megatron(1, 2))
        rows = job.look()
        writer.path = path.rename(path.with_suffix(".1"))
        writer.write(megatron(3))
        rows += job.looks(3)
        assert steps(rows) == [1, 2, 3]

    def test_deleted_while_it_is_written(self, job: Job, path: Path) -> None:
        writer = job.writer(path)
        job.open().look()
        writer.write(megatron(1, 2))
        rows = job.look()
        path.unlink()
        writer.path = None
        writer.write(megatron(3))
        time.sleep(0.2)  # nobody can see the size of a file without a name
        rows += job.looks(3)
        assert steps(rows) == [1, 2, 3]

    def test_the_last_lines_of_a_job_come_with_the_last_tick(self, job: Job, path: Path) -> None:
        writer = job.writer(path)
        job.open().look()
        writer.write(megatron(1, 2, 3))
        writer.end()
        job.members = []
        assert steps(job.tick()) == [1, 2, 3]

    def test_the_end_is_seen_before_the_members_are(self, job: Job, path: Path) -> None:
        """At a last tick the list of processes may be a second old."""
        writer = job.writer(path)
        job.open().look()
        writer.write(megatron(1, 2, 3))
        writer.end()
        assert steps(job.tick()) == [1, 2, 3]

    def test_another_file_under_the_name_is_not_read(self, job: Job, path: Path) -> None:
        writer = job.writer(path)
        job.open().look()
        writer.write(megatron(1, 2))
        rows = job.look()
        writer.end()
        path.rename(path.with_suffix(".old"))
        path.write_bytes(megatron(77, 78))
        rows += job.tick()
        rows += job.looks()
        assert steps(rows) == [1, 2]


class TestMuch:
    def test_a_job_that_floods_its_output_is_read_from_the_end(self, job: Job, path: Path) -> None:
        writer = job.writer(path)
        job.open().look()
        noise = b"nothing of interest\n" * 50
        writer.write(b"".join(noise + megatron(step) for step in range(1, 800)))
        rows = job.looks()
        facts = job.file_facts(path)
        assert 0 < facts["bytes_read"] <= 64 * 1024
        assert facts["bytes_read"] + facts["skipped_bytes"] == path.stat().st_size
        assert steps(rows)[-1] == 799
        assert steps(rows) == list(range(steps(rows)[0], 800))

    def test_a_line_of_100_mb_is_no_line_and_what_follows_is(self, job: Job, path: Path) -> None:
        writer = job.writer(path)
        job.open().look()
        writer.write(megatron(1))
        rows = job.look()
        block = b"z" * 2**20
        for part in range(5):
            for _ in range(20):
                writer.write(block)
            rows += job.look()
            assert job.collector.facts()["files"][0]["bytes_read"] < (part + 2) * 70_000  # type: ignore[index]
        writer.write(b"\n" + megatron(2, 3))
        rows += job.looks(3)
        assert steps(rows) == [1, 2, 3]
        assert job.file_facts(path)["skipped_bytes"] > 99 * 2**20

    def test_rubbish_is_no_step(self, job: Job, path: Path) -> None:
        writer = job.writer(path)
        job.open().look()
        writer.write(random.Random(5).randbytes(60_000))
        assert job.looks() == []
        facts = job.facts()
        assert facts["state"] == "absent"
        assert "no line of a known form" in facts["reason"]

    def test_parsing_that_was_dear_is_done_with_fewer_bytes(
        self, job: Job, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_PARSE_NS", 0)
        writer = job.writer(path)
        job.open().look()
        writer.write(b"x\n" * 100_000)
        before = job.file_facts(path)["bytes_read"] if job.looks() == [] else 0
        writer.write(b"x\n" * 100_000)
        job.look()
        assert job.file_facts(path)["bytes_read"] - before == 8 * 1024

    def test_at_most_sixteen_files_those_of_ranks_first(self, job: Job, tmp_path: Path) -> None:
        others = [job.writer(tmp_path / f"other{n}", role="other") for n in range(16)]
        rank = job.writer(tmp_path / "rank")
        found = find_outputs(Path("/proc"), job.members, None).outputs
        assert len(found) == 16
        assert found[0].pid == rank.member.pid
        assert found[1].pid == others[0].member.pid


class TestAge:
    def test_what_was_there_before_is_of_unknown_age(self, job: Job, path: Path) -> None:
        """Another run's output, in a file that is appended to."""
        path.write_bytes(megatron(1, 2))
        writer = job.writer(path)
        rows = job.open().look()
        writer.write(megatron(3))
        rows += job.looks(3)
        assert [row["detail"].get("early") for row in rows] == [True, True, None]

    def test_a_long_log_that_was_there_before_is_not_read_whole(self, job: Job, path: Path) -> None:
        path.write_bytes(megatron(*range(1, 1001)))
        job.writer(path)
        rows = job.open().looks()
        assert steps(rows)[-1] == 1000
        facts = job.file_facts(path)
        assert facts["bytes_read"] <= 64 * 1024
        assert facts["skipped_bytes"] + facts["bytes_read"] == path.stat().st_size

    @pytest.mark.parametrize(
        ("ago_s", "clock"), [(5, "stamp"), (600, "stamp"), (3600, "read"), (-3600, "read")]
    )
    def test_a_lines_own_time_counts_where_it_can_be_right(
        self, job: Job, path: Path, ago_s: int, clock: str
    ) -> None:
        """An hour: a stamp of another time zone."""
        writer = job.writer(path)
        job.open().look()
        moment_s = (job.start_ns + int((job.seconds + 10) * NS)) // NS - ago_s
        stamp = time.strftime("[%Y-%m-%d %H:%M:%S.000000]", time.localtime(moment_s))
        line = megatron(1).replace(b"[2025-06-01 10:00:01.250000]", stamp.encode())
        writer.write(line)
        [row] = job.looks()
        assert row["detail"]["clock"] == clock
        if clock == "stamp":
            assert row["ts_ns"] == moment_s * NS
        else:
            assert row["ts_ns"] > job.start_ns
        assert row["ts_ns"] - row["mono_ns"] == job.start_ns

    def test_its_own_time_says_that_a_line_is_not_early(self, job: Job, path: Path) -> None:
        job.start_ns -= 60 * NS
        now_s = job.start_ns // NS + 4
        stamp = time.strftime("[%Y-%m-%d %H:%M:%S.000000]", time.localtime(now_s)).encode()
        job.open()
        job.tick()
        path.write_bytes(megatron(1).replace(b"[2025-06-01 10:00:01.250000]", stamp))
        job.writer(path)
        [row] = job.looks()
        assert "early" not in row["detail"]


@pytest.mark.root
class TestOtherUsers:
    @pytest.fixture(autouse=True)
    def as_root(self) -> None:
        if os.geteuid() != 0:
            pytest.skip("needs root to run a job's process as another user")

    def test_a_job_cannot_have_root_read_for_it(self, job: Job, path: Path) -> None:
        """Its standard output is a file of root's that it may write and not read."""
        path.write_bytes(b"")
        path.chmod(0o600)
        writer = job.writer(path, user=NOBODY)
        job.open(NOBODY)
        writer.write(megatron(1, 2))
        assert job.looks(3) == []
        facts = job.facts()
        assert facts["state"] == "off"
        assert "Permission denied" in facts["reason"]

    def test_what_only_the_user_can_read_is_read(self, job: Job, path: Path) -> None:
        path.write_bytes(b"")
        os.chown(path, NOBODY, NOBODY)
        path.chmod(0o600)
        writer = job.writer(path, user=NOBODY)
        job.open(NOBODY).look()
        writer.write(megatron(1, 2))
        assert steps(job.looks(3)) == [1, 2]

    def test_what_runs_as_somebody_else_is_left_alone(self, job: Job, path: Path) -> None:
        job.writer(path).write(megatron(1, 2))
        assert job.open(NOBODY).looks(3) == []
        assert job.facts()["left_alone"] == {"process of another user": 1}


@pytest.mark.fuse
def test_a_file_on_a_mount_that_hangs_costs_only_itself(
    job: Job, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := fuse_missing():
        pytest.skip(reason)
    (tmp_path / "backing").mkdir()
    (tmp_path / "backing" / "slow.out").write_bytes(megatron(7, 8))
    monkeypatch.setattr(job.collector._probes, "_timeout_s", 0.5)
    with SlowFs(tmp_path / "backing", tmp_path / "mount") as slow:
        hangs = job.writer(tmp_path / "mount" / "slow.out")
        writer = job.writer(path)
        slow.change(hang_globs=("*",))
        began_s = time.monotonic()
        job.open().tick(10)
        assert time.monotonic() - began_s < 0.4
        rows = job.look(0.001)
        writer.write(megatron(1, 2))
        rows += job.looks(3)
        assert steps(rows) == [1, 2]
        failures = job.facts()["failures"]
        assert "0.5 s" in str(failures) or "hangs" in str(failures)
        slow.change(hang_globs=())
        hangs.process.kill()
        hangs.process.wait()
        job.forget(hangs)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/home/u/slurm-1.out", "file"), ("/home/u/x (deleted)", "file"), ("pipe:[1]", "pipe"),
     ("socket:[1]", "socket"), ("/dev/pts/3", "terminal"), ("/dev/null", None), (None, None),
     ("/proc/1/environ", "pipe"), ("/dev/shm/x", "pipe"), ("anon_inode:[eventfd]", "pipe")],
)  # fmt: skip
def test_kinds_of_outputs(path: str | None, kind: str | None) -> None:
    assert kind_of(path) == kind


@pytest.mark.parametrize(
    "answer",
    [None, 5, [], [1, 2, 3, 4], [1, 2, 3, 4, 5], [1, 2, -3, 4, ""], [1, 2, 3.5, 4, ""],
     [True, 2, 3, 4, ""], [1, 2, 3, 2**70, ""], [1, 2, 3, 4, "%%%"], [1, 2, 3, 4, "AAA"],
     [1, 2, 3, 4, "QUFB" * 30_000], {"a": 1}],
)  # fmt: skip
def test_the_answer_of_a_child_that_was_taken_over_is_dropped(answer: Any) -> None:
    assert checked_piece(answer) is None


def test_the_parsers_are_loaded_only_when_there_is_a_file() -> None:
    program = (
        "import sys, slurm_io.collectors.log, slurm_io.sampler.main as m\n"
        "print(*[n for n in sys.modules if n.startswith('slurm_io.joblog')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.split() == []
