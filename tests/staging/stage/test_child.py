"""Programs beside us, and that nobody of them outlives us."""

import multiprocessing
import os
import threading
from pathlib import Path

import pytest

from slurm_io.staging.stage.child import Ended, run_child
from slurm_io.staging.stage.writers import Writers

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
SPAWN = multiprocessing.get_context("spawn")


def sh(script: str, stop: threading.Event | None = None, given: bytes = b"") -> tuple[Ended, bytes]:
    output = bytearray()
    ended = run_child(
        ["/bin/sh", "-c", script], ENVIRONMENT, given, stop or threading.Event(), output.extend
    )
    return ended, bytes(output)


def test_output_errors_and_code() -> None:
    ended, output = sh("cat; echo bad >&2; exit 3", given=b"a\0b" * 100_000)
    assert output == b"a\0b" * 100_000
    assert (ended.return_code, ended.errors, ended.stopped) == (3, b"bad\n", False)


def test_words_reach_no_shell(tmp_path: Path) -> None:
    odd = f"$(touch {tmp_path}/made); `touch {tmp_path}/made` 'q' \"q\""
    output = bytearray()
    run_child(["/bin/echo", odd], ENVIRONMENT, b"", threading.Event(), output.extend)
    assert output.decode() == odd + "\n"
    assert not list(tmp_path.iterdir())


def test_stop_ends_children_that_hold_the_output() -> None:
    """As rsync's second process does."""
    stop = threading.Event()
    stop.set()
    ended, _ = sh("trap '' TERM; sleep 1000 & sleep 1000", stop)
    assert ended.stopped


def test_a_program_that_is_not_there() -> None:
    ended = run_child(["/no/such"], ENVIRONMENT, b"", threading.Event(), lambda _: None)
    assert ended.return_code == 127


def long_run(room: str, ready: str) -> None:
    """For a process of its own: a program whose child outlives it, in a room."""
    held = Writers().descriptor(room)
    script = f"(trap '' TERM HUP; sleep 1000) & touch {ready}; sleep 1000"
    argv = ["/bin/sh", "-c", script]
    run_child(argv, ENVIRONMENT, b"", threading.Event(), lambda _: None, [held])


def test_when_we_are_killed_nobody_writes_on(tmp_path: Path) -> None:
    room, ready = tmp_path / "room", tmp_path / "ready"
    room.mkdir()
    process = SPAWN.Process(target=long_run, args=(os.fspath(room), os.fspath(ready)))
    process.start()
    while not ready.exists():
        assert process.is_alive()
    impatient = Writers(patience_s=0.0)
    with pytest.raises(TimeoutError):
        impatient.descriptor(os.fspath(room))
    process.kill()
    process.join()
    patient = Writers(patience_s=60.0)
    patient.descriptor(os.fspath(room))
    patient.close()
    impatient.close()


def test_one_engine_may_have_several_calls_in_a_room(tmp_path: Path) -> None:
    writers = Writers(patience_s=0.0)
    room = os.fspath(tmp_path)
    assert writers.descriptor(room) == writers.descriptor(f"{room}/.")
    writers.close()
