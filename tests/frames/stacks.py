"""Short ways to write stacks down: innermost first, as py-spy's dump prints them."""

from __future__ import annotations

from slurm_io.frames.table import load_table
from slurm_io.stacktext.model import Stack, Thread
from slurm_io.stacktext.texts import parse_frame

TABLE = load_table()
MODULE = "<module> (train.py:1)"
LOADER = (
    "_BaseDataLoaderIter.__next__ (torch/utils/data/dataloader.py:725)",
    "main (train.py:5)",
    MODULE,
)
FORKED = (
    "_worker_loop (torch/utils/data/_utils/worker.py:374)",
    "BaseProcess._bootstrap (multiprocessing/process.py:314)",
    "_MultiProcessingDataLoaderIter.__init__ (torch/utils/data/dataloader.py:1176)",
    "DataLoader.__iter__ (torch/utils/data/dataloader.py:505)",
    MODULE,
)
FETCH = "_MapDatasetFetcher.fetch (torch/utils/data/_utils/fetch.py:54)"
BOOTSTRAP = ("Thread.run (threading.py:982)", "Thread._bootstrap (threading.py:1002)")


def stack(*lines: str) -> Stack:
    """Frames of printed lines."""
    frames = tuple(parse_frame(line) for line in lines)
    assert all(frame is not None for frame in frames), lines
    return tuple(frame for frame in frames if frame is not None)


def thread(*lines: str, name: str = "") -> Thread:
    """A thread of printed lines."""
    return Thread(stack(*lines), name=name)
