"""A stand-in for a job: ranks with a ring that grows, each with loader workers that wait.

    python bench/lab/crew.py RINGS RANKS WORKERS THREADS [SELDOM]

A quarter of the workers waits for a pipe, a quarter for a lock, the others read a file 50 times a
second (or SELDOM times less often); every process has THREADS more threads that wait for ever. A
rank records ten batches a second. Runs until it is killed, with its process group.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.sampler.ring_maker import RingMaker


def waiting_threads(count: int) -> None:
    """Threads that never wake."""
    never = threading.Event()
    for _ in range(count):
        threading.Thread(target=never.wait, daemon=True).start()


def work(number: int, threads: int, pause_s: float) -> None:
    """One loader worker, for ever."""
    waiting_threads(threads)
    if number % 4 == 0:
        os.read(os.pipe()[0], 1)
    if number % 4 == 1:
        threading.Event().wait()
    with open(sys.executable, "rb", buffering=0) as file:
        while True:
            file.seek(0)
            file.read(65536)
            time.sleep(pause_s)


def train(rings: Path, rank: int, workers: int, threads: int, pause_s: float) -> None:
    """One rank, for ever."""
    ring = RingMaker(rings, n_records=16384, greeting={"rank": rank})
    for number in range(workers):
        if os.fork() == 0:
            work(number, threads, pause_s)
    waiting_threads(threads)
    while True:
        ring.phase(1, 0)
        began_ns = time.monotonic_ns()
        time.sleep(0.05)
        ring.batch(began_ns, time.monotonic_ns())
        ring.phase(0)
        time.sleep(0.05)


def main() -> None:
    """Start the ranks and wait."""
    ranks, workers, threads = map(int, sys.argv[2:5])
    pause_s = 0.02 * float(sys.argv[5] if len(sys.argv) > 5 else 1)
    for rank in range(ranks):
        if os.fork() == 0:
            train(Path(sys.argv[1]), rank, workers // ranks, threads, pause_s)
    signal.pause()


if __name__ == "__main__":
    main()
