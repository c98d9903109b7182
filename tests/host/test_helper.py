"""A child that stays, answers question after question, and is never waited for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from slurm_io.host.helper import Channel, End, Helper
from tests.labs.freezer import freezer_group, sleep_in_state_d, thaw


@contextmanager
def helper(serve: Callable[[Channel], None], name: str = "helper") -> Iterator[Helper]:
    one = Helper(serve, name)
    try:
        yield one
    finally:
        one.close()
        until(one.is_gone)


def until(is_so: Callable[[], Any], seconds: float = 20.0) -> Any:
    end_s = time.monotonic() + seconds
    while not (found := is_so()):
        assert time.monotonic() < end_s
        time.sleep(0.002)
    return found


def count(channel: Channel) -> None:
    for number, _ in enumerate(channel.questions()):
        channel.answer({"number": number, "pid": os.getpid()})


def test_it_answers_question_after_question_from_one_child() -> None:
    with helper(count) as one:
        answers = []
        for _ in range(3):
            one.ask()
            answers += until(one.take)
        assert answers == [{"number": number, "pid": one.pid} for number in range(3)]
        assert one.pid != os.getpid() and one.end is None


def test_without_a_question_there_is_no_answer_and_nobody_waits() -> None:
    with helper(count) as one:
        began_s = time.monotonic()
        assert one.take() == []
        assert time.monotonic() - began_s < 0.5
        time.sleep(0.05)
        assert one.take() == []


def test_a_long_answer_is_whole() -> None:
    with helper(lambda channel: channel.answer("x" * 1_000_000)) as one:
        assert until(one.take) == ["x" * 1_000_000]


def test_it_bears_its_name() -> None:
    with helper(count, "slurm_io_gpu") as one:
        one.ask()
        until(one.take)
        assert Path(f"/proc/{one.pid}/comm").read_text() == "slurm_io_gpu\n"


def test_it_holds_nothing_of_its_parents_but_the_channel() -> None:
    inherited = os.open("/etc/passwd", os.O_RDONLY)
    try:
        with helper(count) as one:
            one.ask()
            until(one.take)
            targets = [path.readlink() for path in Path(f"/proc/{one.pid}/fd").iterdir()]
            assert sum(str(target).startswith("pipe:") for target in targets) == 2
            assert Path("/etc/passwd") not in targets
            assert os.getsid(one.pid) == one.pid
    finally:
        os.close(inherited)


@pytest.mark.parametrize(
    ("serve", "end"),
    [
        (lambda channel: None, End(None, 0)),
        (lambda channel: os.kill(os.getpid(), signal.SIGSEGV), End(11, None)),
        (lambda channel: 1 / 0, End(None, 70)),
    ],
)
def test_how_it_ended_is_known(serve: Callable[[Channel], None], end: End, capfd: Any) -> None:
    with helper(serve) as one:
        until(lambda: one.take() or one.end)
        assert one.end == end


def test_whoever_ends_it_is_told() -> None:
    with helper(count) as one:
        one.ask()
        until(one.take)
        os.kill(one.pid, signal.SIGTERM)
        until(lambda: one.take() or one.end)
        assert one.end == End(signal.SIGTERM, None)
        one.ask()  # a question to the dead is no error


def test_nonsense_is_the_end_of_it() -> None:
    def lie(channel: Channel) -> None:
        os.write(channel._answers, b"\xff\xff\xff\xffnonsense")
        time.sleep(60)

    with helper(lie) as one:
        until(lambda: one.take() or one.end)
        assert one.end == End(signal.SIGKILL, None)


def test_what_the_child_writes_into_shared_memory_is_seen_while_it_hangs() -> None:
    def hang(channel: Channel) -> None:
        channel.shared[0] = 7
        time.sleep(60)

    with helper(hang) as one:
        until(lambda: one.shared[0] == 7)
        one.kill()
        assert until(one.is_gone)


def test_it_ends_with_its_parent_even_when_it_does_not_listen(tmp_path: Path) -> None:
    def hang(channel: Channel) -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(60)

    middle = os.fork()
    if middle == 0:
        Helper(hang, "orphan")
        time.sleep(60)
        os._exit(0)
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    pid = int((tmp_path / "pid").read_text())
    os.kill(middle, signal.SIGKILL)
    os.waitpid(middle, 0)
    until(lambda: is_dead(pid))


def is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.mark.root
def test_one_that_no_signal_ends_is_left_alone_until_it_dies() -> None:
    with freezer_group() as group:

        def freeze(channel: Channel) -> None:
            sleep_in_state_d(group)

        one = Helper(freeze, "frozen")
        until(
            lambda: "D" in Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()[0]
        )
        began_s = time.monotonic()
        one.close()
        assert not one.is_gone()
        assert time.monotonic() - began_s < 0.5
        thaw(group)
        until(one.is_gone)
        assert one.end == End(signal.SIGKILL, None)


def test_it_gives_its_descriptors_back() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with helper(count) as one:
        one.ask()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
