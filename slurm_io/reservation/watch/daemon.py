"""The watch as it runs: one look after the other until it is told to end.

SIGTERM and SIGINT end it within a second, whatever it waits for: all it does itself is reading and
single requests to Slurm, which are as good when nobody reads their answer. Swaps and copies are
processes of their own and go on.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NoReturn

from slurm_io.errors import HostError
from slurm_io.reservation.watch.act import Event
from slurm_io.reservation.watch.keeping import load_memory, only_watch, save_memory
from slurm_io.reservation.watch.memory import Memory
from slurm_io.reservation.watch.notify import notify_systemd
from slurm_io.reservation.watch.one_look import How, one_look
from slurm_io.reservation.watch.stopping import END_SIGNALS, not_stopped_here
from slurm_io.reservation.watch.world import World

Say = Callable[[Event], None]
UNWIND_S = 0.6


class Stopped(BaseException):
    """Told to end; no `except Exception` on the way may keep it."""


@dataclass
class Watched:
    """One reservation, its world, and what is remembered of it."""

    world: World
    how: How
    memory: Memory = field(default_factory=Memory)


def watch(watched: Sequence[Watched], state_dir: str, say: Say, once: bool = False) -> int:
    """Look until stopped, or once; how many events there were in all. `say` gets each.

    Raises HostError when another watch has one of the reservations, UsageError for one without
    settings.
    """
    said = 0
    with ExitStack() as stack, _ended_by_signal(lambda: _leave(watched, state_dir, say)):
        for each in watched:
            stack.enter_context(only_watch(state_dir, each.how.reservation))
            _remember(each, state_dir, say)
        try:
            notify_systemd("READY=1")
            while True:
                began_s = time.monotonic()
                for each in watched:
                    said += _turn(each, state_dir, say)
                    notify_systemd("WATCHDOG=1")
                if once:
                    return said
                period_s = min(each.how.spares.period_s for each in watched)
                time.sleep(max(0.0, period_s - (time.monotonic() - began_s)))
        except Stopped:
            notify_systemd("STOPPING=1")
            raise
    return said


def _turn(watched: Watched, state_dir: str, say: Say) -> int:
    try:
        events = one_look(watched.world, watched.memory, watched.how, time.time())
        for event in events:
            say(event)
        return len(events)
    finally:
        _keep(watched, state_dir, say)


def _keep(watched: Watched, state_dir: str, say: Say) -> None:
    name = watched.how.reservation
    try:
        with not_stopped_here():
            save_memory(state_dir, name, watched.memory)
    except HostError as error:
        say(Event(time.time(), "failed", name, f"the watch's memory: {error}"))


def _remember(watched: Watched, state_dir: str, say: Say) -> None:
    name = watched.how.reservation
    try:
        watched.memory = load_memory(state_dir, name)
    except HostError as error:
        say(Event(time.time(), "failed", name, str(error)))


def _leave(watched: Sequence[Watched], state_dir: str, say: Say) -> NoReturn:
    """Without waiting for threads that wait for nodes: their srun ends when nobody reads it."""
    for each in watched:
        _keep(each, state_dir, say)
    notify_systemd("STOPPING=1")
    os._exit(0)


@contextmanager
def _ended_by_signal(leave: Callable[[], NoReturn]) -> Iterator[None]:
    """The first signal unwinds what runs; what does not let itself be unwound is left."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        signal.setitimer(signal.ITIMER_REAL, UNWIND_S)
        raise Stopped

    def late(number: int, frame: FrameType | None) -> None:
        del number, frame
        leave()

    handlers = {signal.SIGALRM: late, **dict.fromkeys(END_SIGNALS, stop)}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    except Stopped:
        return  # the timer stays: a thread may keep the interpreter from its end, too
    except BaseException:
        _restore(before)
        raise
    _restore(before)


def _restore(handlers: Mapping[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
