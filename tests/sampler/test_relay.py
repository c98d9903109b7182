"""Work that is taken up by another thread when a read below the proc root hangs. A FIFO stands for
the file that does not answer: its open sleeps until somebody writes."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from slurm_io.errors import HostError
from slurm_io.sampler.relay import Relay


def ignore(*_arguments: object) -> None:
    """Nothing is done with it."""


def test_work_hung_at_a_process_goes_on_without_it(tmp_path: Path) -> None:
    (tmp_path / "123").mkdir()
    fifo = tmp_path / "123" / "stat"
    os.mkfifo(fifo)
    left: list[tuple[int, str]] = []
    back: list[int] = []
    went_on: list[str] = []
    relay = Relay(tmp_path, lambda pid, file: left.append((pid, file)), back.append)

    def work() -> str:
        if left:
            return "done"
        os.close(os.open(fifo, os.O_RDONLY))
        went_on.append("past the read")
        return "hung"

    assert relay.run(work) == "done"
    assert left == [(123, "stat")]
    assert back == []
    os.close(os.open(fifo, os.O_WRONLY))

    def until_taken_back() -> None:
        deadline_s = time.monotonic() + 20
        while not back and time.monotonic() < deadline_s:
            time.sleep(0.05)

    relay.run(until_taken_back)
    assert back == [123]
    assert went_on == [], "the thread left behind does nothing more"


def test_a_sleep_at_anything_else_is_waited_for(tmp_path: Path) -> None:
    fifo = tmp_path / "elsewhere"
    os.mkfifo(fifo)
    writer = threading.Timer(3.5, lambda: os.close(os.open(fifo, os.O_WRONLY)))
    writer.start()
    left: list[int] = []
    relay = Relay(tmp_path, lambda pid, _file: left.append(pid), ignore)
    assert relay.run(lambda: os.close(os.open(fifo, os.O_RDONLY))) is None
    writer.join()
    assert left == []


def test_what_the_work_raises_comes_through(tmp_path: Path) -> None:
    def work() -> None:
        raise HostError("no descriptor left")

    with pytest.raises(HostError, match="no descriptor left"):
        Relay(tmp_path, ignore, ignore).run(work)
