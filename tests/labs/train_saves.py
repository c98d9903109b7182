"""The training lab's checkpoints, one way of saving a function; see ``--checkpoint-mode``.

Beside :mod:`train_job`, which imports it as a program's neighbour does. Each function returns when
training may go on.
"""

import os
import threading
from pathlib import Path

import torch
from torch.distributed import checkpoint as dcp  # imported here: the first save is timed


def every_rank(options, state, rank, step):
    """torch.save, a file for each rank."""
    path = Path(options.checkpoint_dir) / f"rank{rank}-step{step}.pt"
    if options.checkpoint_fsync:
        with open(path, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
    else:
        torch.save(state, path)


def rank_0(options, state, rank, step):
    """torch.save on rank 0; the others go on to the next collective and wait there."""
    if rank == 0:
        every_rank(options, state, rank, step)


def sharded(options, state, rank, step):
    """A distributed checkpoint: each rank writes its own part."""
    mine = {f"rank{rank}.{name}": value for name, value in state.items()}
    dcp.save(mine, checkpoint_id=folder_of(options, step))


class Background:
    """Saves that are written while training goes on; one at a time."""

    def __init__(self):
        self.pending = self.group = None

    def sharded(self, options, state, rank, step):
        """A distributed checkpoint whose writing is left to a thread."""
        self.finish()
        if self.group is None:  # its own: the writer meets while training all-reduces
            self.group = torch.distributed.new_group(backend="gloo")
        mine = {f"rank{rank}.{name}": value for name, value in state.items()}
        where = folder_of(options, step)
        future = dcp.async_save(mine, checkpoint_id=where, process_group=self.group)
        self.pending = getattr(future, "upload_completion", future).result

    def thread(self, options, state, rank, step):
        """torch.save of a copy, on a thread of one's own."""
        self.finish()
        copied = {name: clone(value) for name, value in state.items()}
        writer = threading.Thread(target=every_rank, args=(options, copied, rank, step))
        writer.start()
        self.pending = writer.join

    def finish(self):
        """Wait for the save that is under way, if one is."""
        if self.pending is not None:
            self.pending()
            self.pending = None


def folder_of(options, step):
    return Path(options.checkpoint_dir) / f"step{step}"


def clone(value):
    return value.clone() if isinstance(value, torch.Tensor) else value


BACKGROUND = Background()
MODES = {
    "save": every_rank,
    "rank0": rank_0,
    "dcp": sharded,
    "dcp-async": BACKGROUND.sharded,
    "thread": BACKGROUND.thread,
}
