"""Calls that may hang are made in a child that can be killed or left behind."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from slurm_io.host.probe import Probe, probe


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
    answer = probe(bytes, 3_000_000, timeout_s=10)
    assert answer.value == bytes(3_000_000)


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
    return (len(os.listdir("/proc/self/fd")), os.getcwd(), os.getsid(0) == os.getpid(),
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
    # Two descriptors: the pipe and the listing itself.
    assert done.stdout.strip() == "(2, '/', True, True, False)"


def test_nothing_is_left_over() -> None:
    before = (open_descriptors(), psutil.Process().children())
    for _ in range(3):
        probe(abs, -1, timeout_s=10)
        probe(time.sleep, 60, timeout_s=0.01)
    assert (open_descriptors(), psutil.Process().children()) == before


FREEZER = Path("/sys/fs/cgroup/freezer")


@pytest.fixture
def freezer() -> Iterator[Path]:
    """A v1 freezer group: what is frozen there sleeps in state D, deaf to SIGKILL."""
    if os.geteuid() != 0 or not (FREEZER / "cgroup.procs").exists():
        pytest.skip("needs root and the cgroup v1 freezer to make an unkillable process")
    group = FREEZER / f"slurm_io_test_{os.getpid()}"
    group.mkdir()
    yield group
    (group / "freezer.state").write_text("THAWED")
    end_s = time.monotonic() + 5
    while (group / "cgroup.procs").read_text() and time.monotonic() < end_s:
        time.sleep(0.005)
    group.rmdir()


def sleep_in_state_d(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))
    (group / "freezer.state").write_text("FROZEN")
    time.sleep(60)


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
    (freezer / "freezer.state").write_text("THAWED")
    end_s = time.monotonic() + 5
    while running.still_stuck() and time.monotonic() < end_s:
        time.sleep(0.005)
    assert not running.still_stuck()
