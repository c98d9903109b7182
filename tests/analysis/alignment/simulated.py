"""Pairs of clumpy series with a known relation, by a seeded generator."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from slurm_io.analysis.alignment.shift_test import Marks

Maker = Callable[[random.Random, int], int]


def bursts(share: float, length: float) -> Maker:
    """Marks in bursts of `length` bins on the mean, `share` of the bins in all."""

    def make(chance: random.Random, bins: int) -> int:
        leave, enter = 1 / length, share / (1 - share) / length
        marks, inside = 0, chance.random() < share
        for at in range(bins):
            if inside:
                marks |= 1 << at
            inside = chance.random() >= leave if inside else chance.random() < enter
        return marks

    return make


def wandering(memory: float, above: float) -> Maker:
    """An autoregressive series (`memory` from bin to bin), where it is `above` deviations."""

    def make(chance: random.Random, bins: int) -> int:
        step = (1 - memory * memory) ** 0.5
        marks, value = 0, chance.gauss(0, 1)
        for at in range(bins):
            if value > above:
                marks |= 1 << at
            value = memory * value + step * chance.gauss(0, 1)
        return marks

    return make


def periodic(period: int, length: int, jitter: int = 0) -> Maker:
    """A burst every `period` bins from a random phase on, moved by up to `jitter` bins each."""

    def make(chance: random.Random, bins: int) -> int:
        marks = 0
        for start in range(chance.randrange(period), bins, period):
            begin = max(0, start + chance.randint(-jitter, jitter))
            marks |= ((1 << length) - 1) << begin
        return marks & ((1 << bins) - 1)

    return make


def rising(share: float) -> Maker:
    """Marks that become more and more frequent, from none to twice `share`."""

    def make(chance: random.Random, bins: int) -> int:
        marks = 0
        for at in range(bins):
            if chance.random() < 2 * share * at / bins:
                marks |= 3 << at
        return marks & ((1 << bins) - 1)

    return make


@dataclass(frozen=True)
class World:
    """How drops and spikes come about when they have nothing to do with each other. `seen`: share
    of the bins with a latency; `reads_in_drops`: latencies are more often there in drops."""

    drops: Maker
    spikes: Maker
    bins: int = 900
    seen: float = 1.0
    reads_in_drops: bool = False

    def pair(self, chance: random.Random) -> Marks:
        """One of them."""
        drops, spikes = self.drops(chance, self.bins), self.spikes(chance, self.bins)
        known = (1 << self.bins) - 1
        if self.seen < 1:
            known = bursts(self.seen, 20)(chance, self.bins)
        if self.reads_in_drops:
            known |= drops
        return Marks(self.bins, drops, spikes & known, known)


def caused(chance: random.Random, bins: int, share: float, spikes: Maker) -> Marks:
    """Of the spikes `share` make a drop (from the spike on, 2 to 5 bins); as many drops again have
    other causes where `share` is half."""
    marks = spikes(chance, bins)
    drops = 0
    at = 0
    own = marks & ~(marks << 1)  # their beginnings
    while at < bins:
        starts = own >> at & 1
        if starts and chance.random() < share:
            drops |= ((1 << chance.randint(2, 5)) - 1) << at
        elif starts:
            other = chance.randrange(bins)
            drops |= ((1 << chance.randint(2, 5)) - 1) << other
        at += 1
    everywhere = (1 << bins) - 1
    return Marks(bins, drops & everywhere, marks, everywhere)
