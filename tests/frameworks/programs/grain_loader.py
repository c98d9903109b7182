"""JAX's Grain without torch: worker processes, numpy for the model, numpy.save for checkpoints."""

from __future__ import annotations

import time
from pathlib import Path

import grain.python as grain
import numpy
import truth


class Files:
    """A random access source: one file a sample."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __len__(self):
        return truth.SAMPLES

    def __getitem__(self, index):
        data = Path(self.folder, f"{index:04d}.bin").read_bytes()
        return numpy.frombuffer(data, dtype=numpy.uint8)

    def __repr__(self):
        return "Files()"


def prepare(folder):
    for index in range(truth.SAMPLES):
        (folder / f"{index:04d}.bin").write_bytes(truth.sample_bytes(index))


def make_loader(options):
    samples = grain.MapDataset.source(Files(options.data)).batch(truth.BATCH).repeat()
    rows = samples.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=4))
    if not options.workers:
        return rows
    return rows.mp_prefetch(
        grain.MultiprocessingOptions(num_workers=options.workers, per_worker_buffer_size=1)
    )


def main():
    options = truth.read_arguments()
    if options.prepare:
        prepare(options.data)
        return
    watch = truth.Stopwatch(options)
    weights = numpy.zeros((truth.FEATURES, 32))
    for batch in watch.batches(make_loader(options)):
        weights -= 1e-3 * batch[:, -truth.FEATURES :].T.astype(float) @ numpy.ones((len(batch), 32))
        time.sleep(truth.STEP_S)
        watch.step_ended()
    watch.write()


if __name__ == "__main__":
    main()
