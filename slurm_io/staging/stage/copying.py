"""The copy itself: every source gets threads, which pull files from one queue.

A source that fails is given up and its files go to the others; one that hangs is left hanging in a
thread of its own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Thread

from slurm_io.staging.stage.engines.base import Engine
from slurm_io.staging.stage.ground import Ground
from slurm_io.staging.stage.lane import Lane
from slurm_io.staging.stage.model import Failure, SourceSpec

LOOK_S = 0.1


class SourceWork:
    """One source and its threads. `dead`: why it was given up."""

    def __init__(self, number: int, spec: SourceSpec, engine: Engine, ground: Ground) -> None:
        self.spec = spec
        self.dead: str | None = None
        self.lanes: list[Lane] = []
        self._number = number
        self._engine = engine
        self._ground = ground
        self._fruitless = 0

    def start(self, count: int) -> None:
        """Add threads."""
        for _ in range(count):
            lane = Lane(self._number, self.spec, self._engine, self._ground, self._on_batch)
            self.lanes.append(lane)

    def alive(self) -> list[Lane]:
        """Threads that are at work."""
        return [lane for lane in self.lanes if lane.thread.is_alive() and not lane.abandoned]

    def give_up(self, why: str) -> None:
        """It gets no more files."""
        if self.dead is None:
            self.dead = why
            self._ground.share.drop(self._number)
            self._ground.book.note(f"{self.spec.label} was given up: {why}")

    def look(self) -> None:
        """Whether a thread hangs; called every now and then."""
        patience, over = self._ground.patience, self._ground.over()
        for lane in self.alive():
            if over and not lane.stop.is_set():
                lane.heard_s = time.monotonic()  # from now on it has its time to end
            silent_s = time.monotonic() - lane.heard_s
            if over or silent_s > patience.hung_s:
                lane.stop.set()
            limit_s = patience.grace_s + (0.0 if over else patience.hung_s)
            if lane.fetching and silent_s > limit_s and lane.abandon():
                self.give_up(f"no byte for {silent_s:.0f} s; its thread {lane.thread.name} hangs")

    def close(self) -> None:
        """Nothing of it runs any more, save what hangs."""
        closing = Thread(target=self._engine.close, daemon=True)
        closing.start()
        closing.join(self._ground.patience.grace_s)

    def _on_batch(self, named: int, link: str) -> None:
        """Back off while a link brings nothing."""
        patience = self._ground.patience
        if named or not link:
            self._fruitless = 0 if named else self._fruitless
            return
        self._fruitless += 1
        if self._fruitless >= patience.link_tries:
            self.give_up(f"{self._fruitless} calls in a row brought nothing; {link}")
            return
        wait_s = min(patience.first_wait_s * 2 ** (self._fruitless - 1), patience.longest_wait_s)
        self._ground.halted.wait(wait_s)


def copy_all(ground: Ground, sources: Sequence[tuple[SourceSpec, Engine]], streams: int) -> None:
    """Copy every file of the queue; what came of it is in the ground's book."""
    works = [SourceWork(n, spec, engine, ground) for n, (spec, engine) in enumerate(sources)]
    shares = split(streams, [spec.readers_max for spec, _ in sources])
    ground.running = sum(shares)
    try:
        for work, count in zip(works, shares, strict=True):
            work.start(count)
        spread: set[int] = set()
        while any(lanes := [lane for work in works for lane in work.alive()]):
            lanes[0].thread.join(LOOK_S)
            for work in works:
                work.look()
            if ground.over():
                ground.halt()
            else:
                _spread(works, spread, streams)
    finally:
        for work in works:
            work.close()
    if not ground.over():
        _blame(ground)


def split(streams: int, most: Sequence[int]) -> list[int]:
    """Threads of each source: shared out evenly, at least one each, at most its own limit (0 = no
    limit)."""
    shares = [1 for _ in most]
    left = streams - len(most)
    while left > 0:
        open_ = [n for n, limit in enumerate(most) if not limit or shares[n] < limit]
        if not open_:
            break
        for number in open_[:left]:
            shares[number] += 1
        left -= len(open_)
    return shares


def _spread(works: Sequence[SourceWork], spread: set[int], streams: int) -> None:
    """The threads of a source that died go to the living."""
    dead = [n for n, work in enumerate(works) if work.dead is not None and n not in spread]
    living = [work for work in works if work.dead is None]
    spread.update(dead)
    if not dead or not living:
        return
    shares = split(streams, [work.spec.readers_max for work in living])
    for work, count in zip(living, shares, strict=True):
        work.start(max(0, count - len(work.alive())))


def _blame(ground: Ground) -> None:
    """What no source could bring."""
    for item in ground.share.left():
        path = item.entry.path
        ground.book.fail(
            item.last or Failure(path, "no source is left that could bring it", "source")
        )
