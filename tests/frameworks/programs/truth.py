"""What the training programs of this folder share: arguments, sizes, a stopwatch of their own.

Nothing here knows of slurm_io: the stopwatch reads CLOCK_MONOTONIC where the program itself asks
for a batch or saves, and writes one JSON file at the end::

    {"pid": …, "begin_ns": …, "end_ns": …, "waits": [[start, end], …], "starts": […], "saves": […]}

`begin_ns` is the end of the first wait, as a report counts training; `starts` are calls of `iter`.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

SAMPLES = 576
SAMPLE_BYTES = 65_536
FEATURES = 64
BATCH = 8
STEP_S = 0.13  # what stands in for the wait for a GPU


def read_arguments():
    """``--prepare`` writes the dataset below DATA and ends; else the program trains from it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--truth", type=Path)
    parser.add_argument("--saves", type=Path, help="folder of the checkpoints")
    parser.add_argument("--seconds", type=float, default=45.0)
    parser.add_argument("--workers", type=int, default=2)
    return parser.parse_args()


def sample_bytes(index):
    """Sample `index` of every dataset; not compressible, and never all zeros."""
    return os.urandom(SAMPLE_BYTES - 1) + bytes([index % 256])


class Stopwatch:
    """Times what the main thread does, in its own words."""

    def __init__(self, options):
        self.seconds = options.seconds
        self.path = options.truth
        self.lists = {"waits": [], "starts": [], "saves": []}
        self.steps = 0
        self.end_ns = 0

    def started(self, kind):
        """Now, to be given to `ended`."""
        return kind, time.monotonic_ns()

    def ended(self, started):
        kind, start_ns = started
        self.lists[kind].append([start_ns, time.monotonic_ns()])
        if kind == "waits" and len(self.lists[kind]) == 1:
            self.announce()

    def timed(self, kind, call, *arguments):
        started = self.started(kind)
        try:
            return call(*arguments)
        finally:
            self.ended(started)

    def announce(self):
        """The training has begun: say so to whoever wants to look at this process."""
        aside = self.path.with_suffix(".new")
        aside.write_text(str(os.getpid()))
        aside.rename(self.path.with_suffix(".pid"))

    def step_ended(self):
        """Count a step."""
        self.steps += 1
        self.end_ns = time.monotonic_ns()

    def is_over(self):
        """Was trained for long enough?"""
        waits = self.lists["waits"]
        return bool(waits) and time.monotonic_ns() - waits[0][1] > self.seconds * 1e9

    def is_save_due(self):
        """After every 25th step."""
        return self.steps % 25 == 0

    def batches(self, loader):
        """Batches of pass after pass, each `iter` and each `next` timed, until the time is over."""
        while not self.is_over():
            iterator = self.timed("starts", iter, loader)
            while not self.is_over():
                started = self.started("waits")
                try:
                    batch = next(iterator)
                except StopIteration:
                    break
                self.ended(started)
                yield batch
            del iterator

    def write(self):
        """The truth file."""
        begin_ns = self.lists["waits"][0][1]
        facts = {"pid": os.getpid(), "begin_ns": begin_ns, "end_ns": self.end_ns}
        self.path.write_text(json.dumps({**facts, "steps": self.steps, **self.lists}))
        print(f"{self.steps} steps done")
