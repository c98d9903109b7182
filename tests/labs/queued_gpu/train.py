"""A training loop whose GPU works off a queue; run as a program, it finds the torch beside it.

    python train.py --data FOLDER --truth FILE [--steps N] [--gpu-ms MS] [--ahead STEPS]

One step: the loader reads a file in this thread, the GPU gets so many ms of work, the optimizer
steps, and the loop lets at most `ahead` steps of work stay queued, as a program does that asks for
a loss some steps late. 0 = it waits for each step, so the GPU has nothing to do while it reads.
The truth: how long the window was, how long the loop waited for data in it, and how long of that
the GPU had no work, from the loop's own clock and the device's own book.
"""

import argparse
import json
import time
from pathlib import Path

import torch.cuda
from torch.optim.optimizer import SGD
from torch.utils.data import DataLoader


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--truth", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=220)
    parser.add_argument("--gpu-ms", type=float, default=40.0)
    parser.add_argument("--ahead", type=int, default=0)
    return parser.parse_args()


class Files:
    """The contents of the folder's files in turn, `number` of them."""

    def __init__(self, folder, number):
        self.paths = sorted(folder.iterdir())
        self.number = number

    def __iter__(self):
        for index in range(self.number):
            yield self.paths[index % len(self.paths)].read_bytes()


def train(options):
    """The waits (from, to), the first one left out, and when the last step ended."""
    stream = torch.cuda.current_stream()
    optimizer = SGD()
    work_ns = int(options.gpu_ms * 1e6)
    waits = []
    batches = iter(DataLoader(Files(options.data, options.steps)))
    for _ in range(options.steps):
        start_ns = time.monotonic_ns()
        next(batches)
        waits.append((start_ns, time.monotonic_ns()))
        stream.launch(work_ns)
        optimizer.step()
        time.sleep(max(0, stream.left_ns() - options.ahead * work_ns) / 1e9)
    return waits, time.monotonic_ns()


def overlap_ns(busy, start_ns, end_ns):
    return sum(max(0, min(end_ns, end) - max(start_ns, start)) for start, end in busy)


def main():
    options = parse_arguments()
    torch.cuda.init()
    waits, end_ns = train(options)
    busy = torch.cuda.default_stream().busy
    in_window = waits[1:]
    waited_ns = sum(end - start for start, end in in_window)
    worked_ns = sum(overlap_ns(busy, start, end) for start, end in in_window)
    truth = {
        "window_s": (end_ns - waits[0][1]) / 1e9,
        "waited_s": waited_ns / 1e9,
        "idle_s": (waited_ns - worked_ns) / 1e9,
        "trespasses": torch.cuda.trespasses,
    }
    options.truth.write_text(json.dumps(truth))


if __name__ == "__main__":
    main()
