"""Calls that may hang are made in a child that can be killed or left behind."""

from __future__ import annotations

import contextlib
import errno
import json
import marshal
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from slurm_io.host.probe import Probe, poll_all, probe
from tests.labs.freezer import freezer_group, sleep_in_state_d, thaw


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_an_answer_comes_back() -> None:
    answer = probe(os.listdir, "/proc/self/task", timeout_s=10)
    assert answer.state == "ok"
    assert answer.value != [str(os.getpid())], "the call was made in this process"


def test_an_error_comes_back_with_its_number() -> None:
    answer = probe(os.stat, "/nonexistent", timeout_s=10)
    assert (answer.state, answer.error_number) == ("error", errno.ENOENT)
    assert answer.reason == "No such file or directory"


def test_any_exception_and_any_strange_value_is_an_error() -> None:
    assert probe(int, "x", timeout_s=10).reason.startswith("ValueError")
    assert probe(object, timeout_s=10).state == "error"


def test_a_child_that_dies_is_an_error() -> None:
    answer = probe(os.kill, 0, signal.SIGKILL, timeout_s=10)
    assert (answer.state, answer.reason) == ("error", "the child ended without an answer")


def test_a_large_answer_is_whole() -> None:
    answer = probe("x".__mul__, 3_000_000, timeout_s=10)
    assert answer.value == "x" * 3_000_000


def test_a_file_name_that_is_no_text_comes_back_as_it_was() -> None:
    assert probe(os.fsdecode, b"a\xff\x80", timeout_s=10).value == os.fsdecode(b"a\xff\x80")


def framed(message: bytes) -> bytes:
    return struct.pack("<I", len(message)) + message


def write_to_the_parent(raw: bytes) -> None:
    """As a user could who has got hold of the child's memory."""
    (pipe,) = (int(each.name) for each in Path("/proc/self/fd").iterdir() if each.is_fifo())
    while raw:
        raw = raw[os.write(pipe, raw) :]
    os._exit(0)


def finish(running: Probe) -> Probe:
    while not running.finished:
        running.wait(0.1)
        running.poll()
    return running


@pytest.mark.parametrize(
    "message",
    [
        marshal.dumps(("ok", 1, "", None)),
        b"",
        b"\x00" * 100,
        b"7",
        b'["ok", 1]',
        b'["timed out", null, "late", null]',
        b'["ok", 1, 2, null]',
        b'["error", null, "x", true]',
        b'[["ok"], 1, "", null]',
        b"[" * 200_000,
        b'["ok", ' + b"9" * 10_000 + b', "", null]',
        b'{"a": 1, "b": 2, "c": 3, "d": 4}',
    ],
)
def test_bytes_of_a_hostile_child_are_an_error_and_nothing_else(message: bytes) -> None:
    answer = probe(write_to_the_parent, framed(message), timeout_s=30)
    assert (answer.state, answer.value) == ("error", None)
    assert answer.reason == "the child's answer cannot be read"


def test_answers_nobody_asked_for_are_dropped() -> None:
    said = framed(json.dumps(["ok", 1, "", None]).encode())
    assert probe(write_to_the_parent, said * 3, timeout_s=30).value == 1


def test_an_answer_above_the_limit_is_not_gathered() -> None:
    running = finish(Probe([("x".__mul__, (3_000_000,))], 30, limit_bytes=100_000))
    (answer,) = running.answers
    assert answer is not None and answer.state == "error"
    assert len(running._received) < 300_000


def test_without_a_process_to_be_had_no_descriptor_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_process() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    before = open_descriptors()
    monkeypatch.setattr(os, "fork", no_process)
    with pytest.raises(OSError, match="temporarily unavailable"):
        Probe([(abs, (-1,))], 1)
    assert open_descriptors() == before


def test_what_a_silent_child_started_is_killed_with_it_and_named(tmp_path: Path) -> None:
    def start_another_and_hang() -> None:
        Probe([(time.sleep, (60,))], 60)
        (tmp_path / "child").touch()
        time.sleep(60)

    running = Probe([(start_another_and_hang, ())], 2)
    finish(running)
    assert (tmp_path / "child").exists()
    (left,) = running.left_pids
    with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
        psutil.Process(left).wait(10)
    assert not psutil.pid_exists(left) or psutil.Process(left).status() == psutil.STATUS_ZOMBIE


def test_a_call_that_hangs_is_killed_at_the_deadline() -> None:
    began_s = time.monotonic()
    answer = probe(time.sleep, 60, timeout_s=0.2)
    assert (answer.state, answer.abandoned_pid) == ("timed out", None)
    assert "0.2 s" in answer.reason
    assert time.monotonic() - began_s < 3


def test_calls_behind_one_that_hangs_stay_open() -> None:
    running = Probe([(abs, (-3,)), (time.sleep, (60,)), (abs, (-4,))], 0.2)
    while not running.finished:
        running.wait(0.1)
        running.poll()
    states = [answer and answer.state for answer in running.answers]
    assert states == ["ok", "timed out", None]
    assert running.answers[0] is not None and running.answers[0].value == 3


def test_poll_never_waits_for_a_child_that_runs() -> None:
    running = Probe([(time.sleep, (60,))], 30)
    began_s = time.monotonic()
    running.poll()
    assert time.monotonic() - began_s < 1
    assert not running.finished
    running.stop()
    assert running.finished


def test_a_child_that_cannot_be_killed_is_left_behind_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a sleep in the kernel looks to the parent: the kill has no effect."""
    kill, spared = os.kill, []
    monkeypatch.setattr(os, "kill", lambda pid, number: spared.append(pid))
    running = Probe([(time.sleep, (60,))], 0.1)
    time.sleep(0.15)
    running.poll()
    (answer,) = running.answers
    assert answer is not None and answer.state == "timed out"
    assert answer.abandoned_pid == spared[0]
    assert f"child {spared[0]} sleeps" in answer.reason
    assert running.still_stuck()
    kill(spared[0], signal.SIGKILL)
    end_s = time.monotonic() + 5
    while running.still_stuck() and time.monotonic() < end_s:
        time.sleep(0.005)
    assert not running.still_stuck()


CHILD_FACTS = """
import os, signal, sys
sys.path[:0] = {path!r}
from slurm_io.host.probe import probe
def facts():
    return ([os.readlink(f"/proc/self/fd/{{each}}") for each in range(3)],
            len(os.listdir("/proc/self/fd")), os.getcwd(), os.getsid(0) == os.getpid(),
            signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, "multiprocessing" in sys.modules)
signal.signal(signal.SIGTERM, lambda *a: None)
opened = open("/etc/hostname")
print(probe(facts, timeout_s=10).value)
"""


def test_the_child_lets_go_of_everything(tmp_path: Path) -> None:
    """A child left behind must not hold slurmd's pipe, a folder, or react as its parent would."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD_FACTS.format(path=sys.path)],
        capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True,
    )  # fmt: skip
    # Beside the three streams two descriptors: the pipe and the listing itself.
    streams = ["/dev/null"] * 3
    assert done.stdout.strip() == f"[{streams}, 5, '/', True, True, False]"


def test_nothing_is_left_over() -> None:
    before = (open_descriptors(), psutil.Process().children())
    for _ in range(3):
        probe(abs, -1, timeout_s=10)
        probe(time.sleep, 60, timeout_s=0.01)
    assert (open_descriptors(), psutil.Process().children()) == before


@pytest.fixture
def freezer() -> Iterator[Path]:
    with freezer_group() as group:
        yield group


@pytest.mark.root
def test_a_child_in_state_d_is_left_behind_in_time_and_forgotten_when_it_dies(
    freezer: Path,
) -> None:
    running = Probe([(sleep_in_state_d, (freezer,))], 0.3)
    began_s = time.monotonic()
    while not running.finished:
        running.wait(0.1)
        running.poll()
    assert time.monotonic() - began_s < 3
    (answer,) = running.answers
    assert answer is not None and answer.state == "timed out"
    pid = answer.abandoned_pid
    assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "D"
    assert f"child {pid} sleeps in " in answer.reason
    assert running.still_stuck()
    thaw(freezer)
    end_s = time.monotonic() + 5
    while running.still_stuck() and time.monotonic() < end_s:
        time.sleep(0.005)
    assert not running.still_stuck()


@pytest.mark.root
def test_many_that_sleep_in_the_kernel_take_no_longer_than_one(freezer: Path) -> None:
    running = [Probe([(sleep_in_state_d, (freezer,))], 0.5) for _ in range(40)]
    while not all(each.finished for each in running):
        time.sleep(0.01)
        began_s = time.monotonic()
        poll_all(running)
        assert time.monotonic() - began_s < 1.0, "one after the other they take 2 s"
    assert all(each.abandoned_pid for each in running)
    thaw(freezer)
    end_s = time.monotonic() + 10
    while any(each.still_stuck() for each in running) and time.monotonic() < end_s:
        time.sleep(0.005)
    assert not any(each.still_stuck() for each in running)
